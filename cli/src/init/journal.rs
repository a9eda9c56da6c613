//! How far an init has come: written before each step that cannot be taken back, so that a command that stopped anywhere
//! is taken up where it was, with the same salt and therefore for the same cluster.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{NodeRecord, NodeStatus};
use latchkey_durable_file::Links;
use latchkey_keys::{ClusterId, KeyVersion, MasterSecret, Secret, Uuid};
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use crate::clock::now;
use crate::cluster_dir::{ClusterDir, JOURNAL};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};

const VERSION: u32 = 1;
/// Far more than it has.
const MAX_JOURNAL: usize = 256 * 1024;

/// `init.json`. Holds no secret: the salt is public once the first node is locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    version: u32,
    pub(super) cluster_name: String,
    pub(super) cluster_id: ClusterId,
    measurement_salt: String,
    /// The version of the master secret that was current at the beginning: the first disk's key and the measurement secret come
    /// from it, whatever is current later. Journals of 0.1.0 do not name it; there was no rotation then.
    #[serde(default = "first_version")]
    pub(super) key_version: KeyVersion,
    pub(super) began_at: u64,
    pub(super) stage: Stage,
    /// Journals of 0.1.0 do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<Asked>,
    /// What the machine proved before it got the keys. Journals of 0.1.0 do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) proved: Option<Proved>,
}

/// What a machine proved to be, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proved {
    /// The image, by the manifest's name for it.
    pub(super) image: String,
    /// That image's version.
    pub(super) image_version: String,
    /// The agent's version, by its own word. Journals of 0.1.0 do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent_version: Option<String>,
    /// When, seconds since the Unix epoch.
    pub(super) at: u64,
}

/// What has happened for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Stage {
    /// Nothing was sent to any node, or what was sent was refused.
    Prepared,
    /// The keys were sent to this machine, and it may have taken them.
    Sent {
        /// The machine.
        ek: EkDigest,
        /// The disk that the keys are for.
        disk: Uuid,
    },
    /// The machine said that it is locked on the cluster.
    Locked {
        /// The machine.
        ek: EkDigest,
        /// Its disk.
        disk: Uuid,
    },
    /// The cluster is there.
    Done {
        /// Its first machine.
        ek: EkDigest,
        /// That machine's disk.
        disk: Uuid,
    },
}

fn first_version() -> KeyVersion {
    KeyVersion::FIRST
}

impl Stage {
    /// The machine that the cluster was begun on.
    pub(super) fn machine(self) -> Option<(EkDigest, Uuid)> {
        match self {
            Self::Prepared => None,
            Self::Sent { ek, disk } | Self::Locked { ek, disk } | Self::Done { ek, disk } => Some((ek, disk)),
        }
    }
}

impl Journal {
    /// The journal of an earlier run, if there is one.
    pub(super) fn load(directory: &ClusterDir) -> Result<Option<Self>, CommandError> {
        let path = directory.path(JOURNAL);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_regular(&path, MAX_JOURNAL, Links::Refused)?;
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let failure = CommandError::usage(format!("{} cannot be used", path.display())).because(error.to_string());
            failure.fix("restore it from a copy: without it the cluster cannot be taken up")
        })
    }

    /// A new cluster: a new salt, written down before anything is sent.
    pub(super) fn begin(
        directory: &ClusterDir,
        name: &str,
        master: &MasterSecret,
        asked: Asked,
    ) -> Result<Self, CommandError> {
        let salt = Secret::<32>::random()?;
        let key_version = master.current();
        let journal = Self {
            version: VERSION,
            cluster_name: name.to_owned(),
            cluster_id: ClusterId::derive(&master.measurement_secret(key_version)?, salt.expose())?,
            measurement_salt: hex::encode(salt.expose()),
            key_version,
            began_at: now(),
            stage: Stage::Prepared,
            asked: Some(asked),
            proved: None,
        };
        journal.write(directory)?;
        Ok(journal)
    }

    /// An earlier run's journal must be of this cluster.
    pub(super) fn check(&self, directory: &ClusterDir, name: &str, master: &MasterSecret) -> Result<(), CommandError> {
        let shown = directory.shown();
        if self.version != VERSION {
            return Err(CommandError::usage(format!(
                "{shown}/{JOURNAL} has version {}, expected {VERSION}",
                self.version
            )));
        }
        if self.cluster_name != name {
            let what = format!("{shown} holds the cluster {:?}, not {name:?}", self.cluster_name);
            return Err(CommandError::usage(what).fix("use its name, or another directory for another cluster"));
        }
        let proven = self.cluster_id.prove(master, self.key_version.number(), &self.salt()?);
        proven.map(drop).map_err(|error| {
            let fix = format!("use the one of this cluster, or another directory than {shown} for a new cluster");
            CommandError::from(error).fix(fix)
        })
    }

    /// What the first machine proved, and what its record has of it, for people.
    pub(super) fn status(&self, record: &NodeRecord) -> Option<NodeStatus> {
        let (proved, (_, disk)) = self.proved.clone().zip(self.stage.machine())?;
        Some(NodeStatus {
            image: proved.image,
            version: proved.image_version,
            agent_version: proved.agent_version,
            epoch: record.disk(disk).map(|disk| disk.epoch),
            last_attestation: proved.at,
            last_report: record.reported.as_ref().map(|reported| reported.at),
        })
    }

    pub(super) fn salt(&self) -> Result<[u8; 32], CommandError> {
        let mut salt = [0; 32];
        hex::decode_to_slice(&self.measurement_salt, &mut salt)
            .map_err(|_| CommandError::usage(format!("{JOURNAL}: measurement_salt is not 64 hexadecimal digits")))?;
        Ok(salt)
    }

    /// Writes down that a step is taken.
    pub(super) fn enter(&mut self, directory: &ClusterDir, stage: Stage) -> Result<(), CommandError> {
        if self.stage == stage {
            return Ok(());
        }
        self.stage = stage;
        self.write(directory)
    }

    /// Writes down what is asked for now, while no machine was told.
    pub(super) fn asks(&mut self, directory: &ClusterDir, asked: Asked) -> Result<(), CommandError> {
        self.asked = Some(asked);
        self.write(directory)
    }

    fn write(&self, directory: &ClusterDir) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| CommandError::local(CommandCode::JournalUnwritable, JOURNAL).because(error.to_string()))?;
        directory.write(JOURNAL, format!("{text}\n").as_bytes(), Readers::OwnerOnly)
    }
}
