//! Components that are not in the image: a program of the image gets them onto the state disk (`services/components`), and verifies
//! them in each boot, before anything of them runs.
//!
//! Which ones says a list, from the operator at init and from the ticket at a join. In later boots somebody may name the list of a
//! version that the cluster has by then ([`latchkey_api::v1::Components`]); mostly nobody does: the list lies on the
//! disk, which could have been changed while the node was off. So its hash is noted here, authenticated under a key that only a boot
//! has that opened this disk ([`Seal`]). The LUKS2 token under its own MAC would be no better a place: an old copy of either passes
//! for a new one, and the header's format would change for it.

use std::path::PathBuf;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::child::{self, Call, Stdout};
use super::{Kubeadm, Member, Progress, StepCode, StepError, files};
use crate::lifecycle::NodeRole;

/// `ClusterSettings.component_list`, `ClusterJoin.component_list`: "at most 64 KiB".
pub(crate) const MAX_LIST: usize = 64 * 1024;
/// Slow mirrors are waited for; of a silent one the program itself says so.
const LIMIT: Duration = Duration::from_hours(1);
const LABEL: &[u8] = b"latchkey component list v1";
const MAX_RECORD: usize = 1024;

/// Authenticates what a later boot of this node finds on its disk.
#[derive(Clone, Debug)]
pub struct Seal(hmac::Key);

impl Seal {
    /// Of the key of the disk's token, which it is not itself.
    pub fn new(token_key: &[u8; 32]) -> Self {
        let own = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token_key), LABEL);
        Self(hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u8,
    /// The list's SHA-256.
    list: String,
    mac: String,
}

/// Of an image that has the program, and so no components.
#[derive(Clone)]
pub(super) struct Components {
    program: String,
    link: PathBuf,
    record: PathBuf,
    limit: Duration,
}

impl Components {
    /// None if the image has its components itself.
    pub(super) fn of(step: &Kubeadm) -> Option<Self> {
        step.components.is_file().then(|| Self {
            program: step.components.display().to_string(),
            link: step.fetched.clone(),
            record: step.directory.join("latchkey/components.json"),
            limit: LIMIT,
        })
    }

    /// The same, with another limit for each run of the program.
    pub(super) fn with_limit(&self, limit: Duration) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Whether the node never had any.
    pub(super) fn never_came(&self) -> bool {
        // What cannot be looked at may be there.
        !self.record.try_exists().unwrap_or(true)
    }

    /// Where one of the programs is, once they are verified.
    pub(super) fn place(&self, name: &str) -> String {
        self.link.join(name).display().to_string()
    }

    /// Gets what a list names. It counts in later boots once it is noted.
    pub(super) async fn fetch(
        &self,
        member: &Member,
        list: &[u8],
        minor: &str,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        if list.is_empty() {
            return Err(not_named("nobody named one"));
        }
        let version = ["--version", minor];
        let version = if minor.is_empty() { &[][..] } else { &version[..] };
        self.call(&[&["fetch"][..], version].concat(), member, list, progress).await
    }

    /// Lets later boots of this node know the list.
    pub(super) fn note(&self, member: &Member, list: &[u8]) -> Result<(), StepError> {
        let hash = digest(&SHA256, list);
        let mac = hex::encode(hmac::sign(&member.seal.0, hash.as_ref()));
        let record = serde_json::to_vec(&Record { version: 1, list: hex::encode(hash), mac });
        let record = record.map_err(|error| StepError::new(StepCode::Input, error.to_string()))?;
        files::write(&self.record, &record)
    }

    /// Verifies what an earlier boot got. Of a node that was to have others, what it got of those is kept.
    pub(super) async fn verify(
        &self,
        member: &Member,
        keep_others: bool,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        if self.never_came() {
            return Err(not_named("this node has got none until now"));
        }
        let noted = self.noted(member).map_err(|why| {
            let message = format!("{}: {why}", self.record.display());
            StepError::new(StepCode::ComponentsChanged, message)
        })?;
        let keep_others = if keep_others { &["--keep-others"][..] } else { &[] };
        self.call(&[&["verify", &noted], keep_others].concat(), member, b"", progress).await
    }

    /// Whether it is this list that the node noted.
    pub(super) fn are_of(&self, member: &Member, list: &[u8]) -> bool {
        self.noted(member).is_ok_and(|noted| noted == hex::encode(digest(&SHA256, list)))
    }

    /// The hash of the list that this node noted. The error says why there is none.
    fn noted(&self, member: &Member) -> Result<String, String> {
        let text = files::read(&self.record, MAX_RECORD).map_err(|error| error.message)?;
        let record: Record = serde_json::from_slice(text.expose()).map_err(|error| error.to_string())?;
        let decoded = || Some((hex::decode(&record.list).ok()?, hex::decode(&record.mac).ok()?));
        let genuine = decoded().is_some_and(|(hash, mac)| hmac::verify(&member.seal.0, &hash, &mac).is_ok());
        if record.version == 1 && genuine { Ok(record.list) } else { Err("this node did not write it".to_owned()) }
    }

    async fn call(
        &self,
        words: &[&str],
        member: &Member,
        list: &[u8],
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let role = if member.role == NodeRole::Worker { "worker" } else { "control-plane" };
        let link = self.link.display().to_string();
        let arguments = [words, &["--role", role, "--link", &link]].concat();
        let (program, stdout) = (&self.program, Stdout::Progress);
        let call = Call { program, arguments: &arguments, stdin: list, stdout, limit: self.limit, hidden: &[] };
        child::run(call, progress).await.map(drop).map_err(|error| match error.code {
            StepCode::Failed => StepError { code: StepCode::ComponentsMissing, ..error },
            _ => error,
        })
    }
}

fn not_named(why: &str) -> StepError {
    StepError::new(StepCode::ComponentsNotNamed, format!("the image has no Kubernetes in it, and {why}"))
}
