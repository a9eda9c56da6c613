//! What root says to the join service of its machine, over a Unix socket: that a machine is shut out, and that it is not any more.
//! For what has to be heard at once, also while nothing is heard of the cluster's store. One line of JSON each way, and the connection
//! ends.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use latchkey_attestation::EkDigest;
use latchkey_keys::ClusterId;
use latchkey_reason::reason_codes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Where a join service has it that is run by its unit.
pub const DENIAL_SOCKET: &str = "/run/latchkey-join-service/denials.sock";
/// The longest line, in bytes, its end included.
pub const MAX_DENIAL_LINE: usize = 1024;

/// What is asked for, of which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialRequest {
    version: u64,
    /// The cluster that is meant: the service of another one refuses.
    pub cluster_id: ClusterId,
    /// What it is to do.
    pub ask: DenialAsk,
}

/// What a service can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DenialAsk {
    /// Shut this machine out from now on, until the store lists it.
    Deny(EkDigest),
    /// Take that back. What the store lists stays denied.
    Allow(EkDigest),
}

/// What the service did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialAnswer {
    version: u64,
    /// What became of it.
    pub outcome: DenialOutcome,
}

/// What became of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DenialOutcome {
    /// The machine gets nothing from now on.
    Denied,
    /// Nothing that was asked for here denies the machine any more; whether something did.
    Allowed {
        /// Whether it was denied here.
        was_denied: bool,
    },
    /// Nothing was done, for this reason code.
    Refused(String),
}

impl DenialRequest {
    /// A request in this version.
    pub fn new(cluster_id: ClusterId, ask: DenialAsk) -> Self {
        Self { version: VERSION, cluster_id, ask }
    }

    /// As it is sent.
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads what was received.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(line: &[u8]) -> Result<Self, ContentError> {
        parse(line)
    }
}

impl DenialAnswer {
    /// An answer in this version.
    pub fn new(outcome: DenialOutcome) -> Self {
        Self { version: VERSION, outcome }
    }

    /// As it is sent.
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads what was received.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(line: &[u8]) -> Result<Self, ContentError> {
        parse(line)
    }
}

impl From<DenialRefusal> for DenialOutcome {
    fn from(refusal: DenialRefusal) -> Self {
        Self::Refused(refusal.as_str().to_owned())
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Digests and words: they are JSON always.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, ContentError> {
    if line.len() > MAX_DENIAL_LINE {
        return Err(ContentError::TooLarge(MAX_DENIAL_LINE));
    }
    check_version(line)?;
    serde_json::from_slice(line).map_err(ContentError::Syntax)
}

reason_codes! {
    /// Why a service does not do what root asks for.
    pub enum DenialRefusal {
        /// No request of this version.
        Malformed = "denial-request-malformed": "use the command line of the join service's own release";
        /// The service lets machines into another cluster, or into none yet.
        OtherCluster = "denial-of-another-cluster":
            "name the directory of the cluster whose join service runs on this machine, or another socket with --denial-socket";
        /// As many are denied here alone as may be.
        TooMany = "denials-unlisted-too-many":
            "see that the cluster's store can be written, and deny the machines there: what it lists needs no room here";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> DenialRequest {
        let ek = EkDigest::from_hex(&"ab".repeat(32)).unwrap();
        DenialRequest::new("cd".repeat(32).parse().unwrap(), DenialAsk::Deny(ek))
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        let sent = request();
        assert_eq!(DenialRequest::parse(&sent.line()).unwrap(), sent);
        for outcome in
            [DenialOutcome::Denied, DenialOutcome::Allowed { was_denied: true }, DenialRefusal::OtherCluster.into()]
        {
            let sent = DenialAnswer::new(outcome);
            let line = sent.line();
            assert!(line.len() < MAX_DENIAL_LINE && line.ends_with(b"}\n"));
            assert_eq!(DenialAnswer::parse(&line).unwrap(), sent);
        }
    }

    #[test]
    fn nothing_but_a_request_of_this_version_is_read() {
        let text = String::from_utf8(request().line()).unwrap();
        let changed = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            changed
        };
        for refused in [
            changed("\"version\":1", "\"version\":2"),
            changed("\"version\":1,", ""),
            changed("\"deny\"", "\"admit\""),
            changed("{\"deny\"", "{\"allow\":null,\"deny\""),
            changed("abab", "ab"),
            changed("\"version\":1", "\"version\":1,\"reason\":\"\""),
            changed("}\n", "} {}\n"),
            format!("{}{text}", " ".repeat(MAX_DENIAL_LINE)),
            String::new(),
        ] {
            assert!(DenialRequest::parse(refused.as_bytes()).is_err(), "{refused}");
        }
    }
}
