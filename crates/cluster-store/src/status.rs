//! `status/EK-DIGEST.json`: what was last seen of a machine on record. For people: nothing is decided by it.
//!
//! Beside the record and not in it, as an `AttestedNode` has its status in an API server: a rejoin writes no record, so that a power cut
//! in a whole room is not followed by a thousand writes that tickets wait for. These are written after the ticket went out, by a thread
//! of their own, and not at all where they would say what is written, but for a time of the last hour.

use crate::atomic::{self, Existing};
use crate::error::{ContentError, StoreError};
use crate::store::ClusterStore;
use latchkey_attestation::EkDigest;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The directory's name.
const STATUS: &str = "status";
/// Schema of the files.
const VERSION: u64 = 1;
/// Far more than it has.
const MAX_FILE: usize = 4096;
/// Seconds that a machine's last proof may be later than its file says.
const BEHIND: u64 = 3600;
/// Machines whose status waits; what is above is written when they prove themselves again.
const MOST: usize = 8192;
/// Characters of an agent's version.
const MAX_VERSION: usize = 32;

/// What was last seen of a machine on record. For people: nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The image that it proved, by the manifest's name for it.
    pub image: String,
    /// That image's version.
    pub version: String,
    /// The version of its agent, by its own word; `None` where that was not what it said.
    pub agent_version: Option<String>,
    /// The epoch of the disk that it got a key for; `None` where that was not what it asked.
    pub epoch: Option<u64>,
    /// When it proved that, seconds since the Unix epoch.
    pub last_attestation: u64,
    /// When it reported how its bootstrap ended, in the same unit; `None` where that was not what it did.
    pub last_report: Option<u64>,
}

impl NodeStatus {
    /// An agent's version as it says it: printable, 32 characters at most; `None` where it says nothing.
    pub fn agent_version(said: &str) -> Option<String> {
        let version: String = latchkey_reason::printable(said).take(MAX_VERSION).collect();
        (!version.is_empty()).then_some(version)
    }

    /// This, and then `next`: what that does not say stays.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        Self {
            agent_version: next.agent_version.or(self.agent_version),
            epoch: next.epoch.or(self.epoch),
            last_report: next.last_report.or(self.last_report),
            ..next
        }
    }

    /// Whether what was written is as good as this: only times are others, by less than `behind` seconds.
    pub fn is_said_by(&self, written: &Self, behind: u64) -> bool {
        let is_near = |now: u64, before: u64| now.saturating_sub(before) < behind;
        let known = |now: Option<u64>, before: Option<u64>| {
            now.is_none_or(|now| before.is_some_and(|before| is_near(now, before)))
        };
        (&written.image, &written.version) == (&self.image, &self.version)
            && (self.agent_version.is_none() || self.agent_version == written.agent_version)
            && (self.epoch.is_none() || self.epoch == written.epoch)
            && is_near(self.last_attestation, written.last_attestation)
            && known(self.last_report, written.last_report)
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusFile {
    version: u64,
    ek_sha256: EkDigest,
    image: String,
    image_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    last_attestation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_report: Option<u64>,
}

impl ClusterStore {
    /// What was last seen of this machine; `None` where nothing was, or the file cannot be read: it is written anew when the machine
    /// proves itself again.
    pub fn status_of(&self, ek: &EkDigest) -> Option<NodeStatus> {
        let json = atomic::read(&self.path().join(STATUS).join(format!("{ek}.json")), MAX_FILE).ok()?;
        let file: StatusFile = serde_json::from_slice(&json).ok()?;
        let StatusFile {
            version,
            ek_sha256,
            image,
            image_version,
            agent_version,
            epoch,
            last_attestation,
            last_report,
        } = file;
        let status = NodeStatus { image, version: image_version, agent_version, epoch, last_attestation, last_report };
        (version == VERSION && ek_sha256 == *ek).then_some(status)
    }

    /// Writes what was seen of a machine now, unless its file says so; whether it was written.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_status(&self, ek: &EkDigest, status: NodeStatus) -> Result<bool, StoreError> {
        let next = match self.status_of(ek) {
            Some(written) if status.is_said_by(&written, BEHIND) => return Ok(false),
            Some(written) => written.followed_by(status),
            None => status,
        };
        let NodeStatus { image, version, agent_version, epoch, last_attestation, last_report } = next;
        let (ek_sha256, image_version, version) = (*ek, version, VERSION);
        let file = StatusFile {
            version,
            ek_sha256,
            image,
            image_version,
            agent_version,
            epoch,
            last_attestation,
            last_report,
        };
        let (directory, name) = (self.path().join(STATUS), format!("{ek}.json"));
        atomic::make(&directory)?;
        let json = serde_json::to_string_pretty(&file)
            .map_err(|error| StoreError::malformed(&directory.join(&name))(ContentError::Syntax(error)))?;
        atomic::write(&directory, &name, json.as_bytes(), Existing::Replace).map(|()| true)
    }

    /// Forgets what was seen of a machine.
    pub(crate) fn forget_status(&self, ek: &EkDigest) -> Result<(), StoreError> {
        let directory = self.path().join(STATUS);
        if directory.is_dir() { atomic::remove(&directory.join(format!("{ek}.json"))).map(drop) } else { Ok(()) }
    }
}

/// Writes statuses, later.
#[derive(Debug, Default)]
pub(crate) struct Statuses(OnceLock<Option<SyncSender<(EkDigest, NodeStatus)>>>);

impl Statuses {
    /// Has this written. Waits for nothing.
    pub(crate) fn show(&self, directory: &ClusterStore, ek: EkDigest, status: NodeStatus) {
        let next = self.0.get_or_init(|| {
            let (next, waiting) = sync_channel(MOST);
            let directory = directory.clone();
            let write = move || {
                for (ek, status) in waiting {
                    if let Err(error) = directory.write_status(&ek, status) {
                        tracing::warn!(%error, "A status was not written: what `latchkey node list` shows of this machine is older than it says");
                    }
                }
            };
            let thread = thread::Builder::new().name("statuses".to_owned()).spawn(write);
            thread.inspect_err(|error| tracing::warn!(%error, "No status will be written")).ok().map(|_| next)
        });
        if let Some(next) = next {
            // Full: it is seen again.
            drop(next.try_send((ek, status)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn status(at: u64) -> NodeStatus {
        let (image, version) = ("plant".to_owned(), "1.2.3".to_owned());
        NodeStatus { image, version, agent_version: None, epoch: Some(1), last_attestation: at, last_report: None }
    }

    #[test]
    fn a_status_is_written_for_news_and_once_an_hour_and_keeps_what_is_not_said_anew() {
        let directory = tempfile::tempdir().unwrap();
        let store = ClusterStore::make(directory.path()).unwrap();
        let ek = EkDigest::from_bytes([0x11; 32]);
        assert_eq!(store.status_of(&ek), None);
        let write = |status: NodeStatus| store.write_status(&ek, status).unwrap();
        assert!(write(status(1000)) && !write(status(1000 + BEHIND - 1)) && write(status(1000 + BEHIND)));
        let reported = NodeStatus {
            agent_version: NodeStatus::agent_version("0.3.0"),
            epoch: None,
            last_report: Some(5000),
            ..status(5000)
        };
        // A machine that reports again and again has one write an hour.
        assert!(write(reported.clone()) && !write(NodeStatus { last_report: Some(5060), ..reported.clone() }));
        let all = NodeStatus { epoch: Some(1), ..reported };
        assert_eq!(store.status_of(&ek), Some(all.clone()));
        for news in [
            NodeStatus { version: "1.2.4".to_owned(), ..status(5001) },
            NodeStatus { epoch: Some(2), version: "1.2.4".to_owned(), ..status(5001) },
            NodeStatus {
                agent_version: Some("0.4.0".to_owned()),
                epoch: None,
                version: "1.2.4".to_owned(),
                ..status(5001)
            },
        ] {
            assert!(write(news.clone()) && !write(news));
        }
        let known = store.status_of(&ek).unwrap();
        assert_eq!(
            (known.epoch, known.agent_version.as_deref(), known.last_report),
            (Some(2), Some("0.4.0"), Some(5000))
        );
        // A report says neither version again, and is written an hour after the last one.
        let report =
            NodeStatus { epoch: None, last_report: Some(5000 + BEHIND), version: "1.2.4".to_owned(), ..status(5001) };
        assert!(write(report.clone()) && !write(report));
        assert_eq!(store.status_of(&ek).unwrap().agent_version.as_deref(), Some("0.4.0"));
        store.forget_status(&ek).unwrap();
        assert_eq!(store.status_of(&ek), None);
    }

    #[test]
    fn a_file_of_another_machine_or_schema_says_nothing_and_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let store = ClusterStore::make(directory.path()).unwrap();
        let (ek, other) = (EkDigest::from_bytes([0x11; 32]), EkDigest::from_bytes([0x22; 32]));
        assert!(store.write_status(&ek, status(1)).unwrap());
        let path = |ek: &EkDigest| directory.path().join(STATUS).join(format!("{ek}.json"));
        let text = fs::read_to_string(path(&ek)).unwrap();
        fs::write(path(&other), &text).unwrap();
        assert_eq!(store.status_of(&other), None);
        for spoilt in
            ["", "{", &text.replace("\"version\": 1", "\"version\": 2"), &text.replacen('{', "{\"debug\": 1,", 1)]
        {
            fs::write(path(&ek), spoilt).unwrap();
            assert_eq!(store.status_of(&ek), None, "{spoilt}");
            assert!(store.write_status(&ek, status(1)).unwrap());
        }
    }

    #[test]
    fn an_agent_says_its_version_in_few_printable_characters() {
        assert_eq!(NodeStatus::agent_version(""), None);
        assert_eq!(NodeStatus::agent_version("0.3.0\u{1b}[2J").unwrap(), "0.3.0\u{fffd}[2J");
        assert_eq!(NodeStatus::agent_version(&"9".repeat(40)).unwrap().len(), MAX_VERSION);
    }
}
