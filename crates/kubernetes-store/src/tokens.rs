//! Bootstrap tokens: what one node joins by, for a quarter of an hour.
//!
//! A token is a Secret in `kube-system` (the API server's own mechanism). The service may create such Secrets and delete them, in the
//! one way that does not answer with their content, and do nothing else with Secrets: it cannot read, list or change one, so its
//! credentials give nobody a token that it did not make itself. A token goes with its node's report, or when a later ticket takes its
//! place. When one ends is said by this machine's clock and judged by the API server's, which says what time it is in each Secret that
//! it made: where the two differ there is no token. One that could not be deleted then is worthless, because no certificate is approved for it, and goes when the controller for
//! expired tokens finds it.

use crate::error::{ApiCode, ApiStoreCode, elsewhere, failed, is_absent};
use crate::store::{KubernetesStore, lock};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use latchkey_cluster_store::{NodeName, StoreError};
use latchkey_keys::SecretVec;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The group that tokens of tickets are in: kubeadm gives it nothing.
pub const GROUP: &str = "system:bootstrappers:latchkey";
/// How long a token lives.
pub const LIFETIME: SignedDuration = SignedDuration::from_mins(15);

/// By so much two clocks that somebody keeps may differ, and a token live longer or shorter.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// So long the clocks are taken for the same that were seen to be.
const CLOCKS_GOOD: Duration = Duration::from_mins(1);

/// A token that is drawn and not made: the record that names it is written at the same time.
pub struct DrawnToken {
    token: BootstrapToken,
    secret: SecretVec,
    asked: Timestamp,
}

impl std::fmt::Debug for DrawnToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DrawnToken").field("token", &self.token).finish_non_exhaustive()
    }
}

impl DrawnToken {
    /// Draws one that begins now.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`], without randomness.
    pub fn draw() -> Result<Self, StoreError> {
        let (id, secret) = (drawn::<ID_LENGTH>()?, SecretVec::from_slice(&drawn::<SECRET_LENGTH>()?));
        let asked = Timestamp::now();
        let token = SecretVec::from([&id[..], b".", secret.expose()].concat());
        let (id, expires_at) = (text(&id), expiry(asked)?.as_second());
        Ok(Self { token: BootstrapToken { id, text: token, expires_at, clocks: None }, secret, asked })
    }

    /// See [`BootstrapToken::id`].
    pub fn id(&self) -> &str {
        self.token.id()
    }

    /// See [`BootstrapToken::expires_at`].
    pub fn expires_at(&self) -> i64 {
        self.token.expires_at()
    }
}

/// A token, `ID.SECRET`.
pub struct BootstrapToken {
    id: String,
    text: SecretVec,
    expires_at: i64,
    clocks: Option<StoreError>,
}

impl BootstrapToken {
    /// The part that is no secret: the user of its requests is `system:bootstrap:ID`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole of it.
    pub fn expose(&self) -> &[u8] {
        self.text.expose()
    }

    /// An error where its end, by the API server's clock, is another than [`LIFETIME`] says: then it is no token for anybody, and is to
    /// be ended.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`], with both clocks' difference.
    pub fn check_clocks(&mut self) -> Result<(), StoreError> {
        self.clocks.take().map_or(Ok(()), Err)
    }

    /// Seconds since the Unix epoch.
    pub fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

impl std::fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl KubernetesStore {
    /// Makes a token for this one node. Ids are drawn by chance: where one is taken, so is the whole token. Blocks: never on the
    /// client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn issue_token(&self, drawn: DrawnToken, node: &NodeName) -> Result<BootstrapToken, StoreError> {
        let (api, DrawnToken { mut token, secret, asked }) = (self.secrets(), drawn);
        let about = format!("secrets/bootstrap-token-{}", token.id);
        let object = token_object(token.id.as_bytes(), secret.expose(), node.as_str(), expiry(asked)?);
        let created = self.wait(&about, async {
            api.create(&PostParams::default(), &object).await.map_err(|error| failed(&about, &error))
        })?;
        token.clocks = self.compare_clocks(&created, asked).err();
        Ok(token)
    }

    /// Asks what time it is, by a token that is not kept, unless that was seen a moment ago. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`]; `api-clocks-differ` where they do.
    pub fn check_clock_lately(&self) -> Result<(), StoreError> {
        let checked = *lock(&self.shared().clock_checked);
        if checked.is_some_and(|checked| checked.elapsed() < CLOCKS_GOOD) { Ok(()) } else { self.check_clock() }
    }

    /// The same, whatever was seen before.
    ///
    /// # Errors
    /// As [`Self::check_clock_lately`].
    pub fn check_clock(&self) -> Result<(), StoreError> {
        let (api, asked) = (self.secrets(), Timestamp::now());
        let object = token_object(&drawn::<ID_LENGTH>()?, &drawn::<SECRET_LENGTH>()?, "none", expiry(asked)?);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let created =
            self.wait("secrets", async { api.create(&dry, &object).await.map_err(|error| failed("secrets", &error)) })?;
        self.compare_clocks(&created, asked)
    }

    fn compare_clocks(&self, created: &Secret, asked: Timestamp) -> Result<(), StoreError> {
        let compared = compare_clocks(created, asked);
        *lock(&self.shared().clock_checked) = compared.is_ok().then(Instant::now);
        compared
    }

    /// Deletes a token by its id; one that is gone already is as good. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn end_token(&self, id: &str) -> Result<(), StoreError> {
        let (api, name) = (self.secrets(), format!("bootstrap-token-{id}"));
        let about = format!("secrets/{name}");
        self.wait(&about, async {
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(error) if is_absent(&error) => Ok(()),
                Err(error) => Err(failed(&about, &error)),
            }
        })
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.shared().client.clone(), "kube-system")
    }
}

fn expiry(asked: Timestamp) -> Result<Timestamp, StoreError> {
    let end = asked.saturating_add(LIFETIME);
    end.map_err(|error| elsewhere("secrets", ApiCode::Invalid, format!("no time for the token's end: {error}")))
}

/// Holds the time at which the API server says that it made an object against when it was asked for, and the time since then.
fn compare_clocks(created: &Secret, asked: Timestamp) -> Result<(), StoreError> {
    let Some(Time(there)) = created.metadata.creation_timestamp else {
        return Err(elsewhere("secrets", ApiCode::AnswerUnusable, "a Secret without creationTimestamp"));
    };
    let (early, late) = (asked.duration_since(there), there.duration_since(Timestamp::now()));
    if early <= CLOCKS_DIFFER && late <= CLOCKS_DIFFER {
        return Ok(());
    }
    let (by, way) = if early > late { (early, "behind") } else { (late, "ahead of") };
    let detail = format!("the API server's clock is {} s {way} this service's, at most 60 expected", by.as_secs());
    Err(elsewhere("secrets", ApiStoreCode::ClocksDiffer, detail))
}

fn token_object(id: &[u8], secret: &[u8], node: &str, expires: Timestamp) -> Secret {
    let fields: [(&str, Vec<u8>); 6] = [
        ("token-id", id.to_vec()),
        ("token-secret", secret.to_vec()),
        ("usage-bootstrap-authentication", b"true".to_vec()),
        ("auth-extra-groups", GROUP.as_bytes().to_vec()),
        // Whole seconds: the API server parses RFC 3339.
        ("expiration", expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into_bytes()),
        ("description", format!("a ticket of Latchkey for the node {node}").into_bytes()),
    ];
    let data: BTreeMap<String, ByteString> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), ByteString(value))).collect();
    let name = Some(format!("bootstrap-token-{}", text(id)));
    Secret {
        metadata: ObjectMeta { name, ..ObjectMeta::default() },
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Letters and digits drawn by chance, each as likely as any other.
fn drawn<const N: usize>() -> Result<[u8; N], StoreError> {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // The largest multiple of 36 in a byte: what is above is drawn again.
    const BELOW: u8 = 252;
    let (random, mut drawn, mut at) = (SystemRandom::new(), [0; N], 0);
    while at < N {
        let mut byte = [0];
        random.fill(&mut byte).map_err(|_| elsewhere("secrets", ApiCode::Invalid, "no randomness for a token"))?;
        if byte[0] < BELOW {
            drawn[at] = LETTERS[usize::from(byte[0] % 36)];
            at += 1;
        }
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_letters_and_digits_and_never_the_same() {
        let all: std::collections::BTreeSet<_> = (0..200).map(|_| drawn::<SECRET_LENGTH>().unwrap()).collect();
        assert_eq!(all.len(), 200);
        assert!(all.iter().flatten().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }

    #[test]
    fn a_token_s_object_is_of_the_one_kind_that_the_admission_policy_lets_through() {
        let secret =
            token_object(b"abc123", b"0123456789abcdef", "worker-1", Timestamp::from_second(1_800_000_000).unwrap());
        assert_eq!(secret.metadata.name.as_deref(), Some("bootstrap-token-abc123"));
        assert_eq!(secret.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
        let data = secret.data.unwrap();
        assert_eq!(data["auth-extra-groups"].0, GROUP.as_bytes());
        assert_eq!(data["expiration"].0, b"2027-01-15T08:00:00Z");
        assert!(!data.contains_key("usage-bootstrap-signing"));
    }
}
