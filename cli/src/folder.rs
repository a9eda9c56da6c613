//! The cluster's folder, as the standalone join service reads it too.
//!
//! ```text
//! DIR/
//!   cluster.json       name, id and salt: one cluster, for ever
//!   policy.json        whom to admit
//!   references/*.json  measurements of admitted images
//!   nodes/<ek>.json    one record for each TPM that joined
//!   init.json          how far `latchkey init` has come; nobody else reads it
//!   lock               held by whoever changes the above
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use latchkey_attestation::EkDigest;
use latchkey_keys::{ClusterId, Uuid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::files::{self, Readers};
use crate::trust::Trust;

/// A record is far smaller.
const MAX_RECORD: usize = 64 * 1024;
/// More nodes than one folder is for.
const MAX_NODES: usize = 10_000;

/// A cluster's folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// Holds the folder against others; gone when dropped.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

/// `cluster.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cluster {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) cluster_id: ClusterId,
    /// 64 hexadecimal digits.
    pub(crate) measurement_salt: String,
    /// Seconds since the Unix epoch.
    pub(crate) created_at: u64,
}

/// `nodes/<ek>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRecord {
    pub(crate) version: u32,
    pub(crate) ek_sha256: EkDigest,
    pub(crate) node_name: String,
    pub(crate) role: String,
    pub(crate) disk_uuid: Uuid,
    /// Seconds since the Unix epoch.
    pub(crate) first_join: u64,
    pub(crate) epoch: u64,
    /// `pending`, `member` or `failed: CODE`.
    pub(crate) outcome: String,
}

impl Cluster {
    pub(crate) fn new(name: &str, cluster_id: ClusterId, salt: &str, now: u64) -> Self {
        Self { version: 1, name: name.to_owned(), cluster_id, measurement_salt: salt.to_owned(), created_at: now }
    }
}

impl NodeRecord {
    /// The record of a cluster's first node, before its bootstrap has ended.
    pub(crate) fn first(ek_sha256: EkDigest, name: &str, disk_uuid: Uuid, now: u64) -> Self {
        Self {
            version: 1,
            ek_sha256,
            node_name: name.to_owned(),
            role: "control-plane".to_owned(),
            disk_uuid,
            first_join: now,
            epoch: 1,
            outcome: "pending".to_owned(),
        }
    }

    pub(crate) fn with_outcome(self, outcome: &str) -> Self {
        Self { outcome: outcome.to_owned(), ..self }
    }
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn shown(&self) -> String {
        self.0.display().to_string()
    }

    /// Makes the folder if it is missing, and holds it: two commands never work on one cluster at once.
    pub(crate) fn hold(&self) -> Result<Held, Failure> {
        files::make_folder(&self.0)?;
        let path = self.path("lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let failed = |error: &std::io::Error| {
            Failure::local("folder-lock", format!("cannot lock {}", path.display())).because(error.to_string())
        };
        let file = opened.map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("another command works on {}", self.shown());
                Err(Failure::local("folder-busy", what).fix("wait until it is done"))
            }
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }

    /// `cluster.json`, if there is one.
    pub(crate) fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        self.read("cluster.json")
    }

    pub(crate) fn write_cluster(&self, cluster: &Cluster) -> Result<(), Failure> {
        self.write("cluster.json", cluster, Readers::Anyone)
    }

    /// The record of one TPM, if there is one.
    pub(crate) fn node(&self, ek: EkDigest) -> Result<Option<NodeRecord>, Failure> {
        self.read(&format!("nodes/{ek}.json"))
    }

    pub(crate) fn write_node(&self, record: &NodeRecord) -> Result<(), Failure> {
        files::make_folder(&self.path("nodes"))?;
        self.write(&format!("nodes/{}.json", record.ek_sha256), record, Readers::Anyone)
    }

    /// All node records, by name.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeRecord>, Failure> {
        let mut nodes = Vec::new();
        for path in self.json_files("nodes", MAX_NODES)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            nodes.extend(self.read::<NodeRecord>(&format!("nodes/{name}"))?);
        }
        nodes.sort_by(|a, b| a.node_name.cmp(&b.node_name));
        Ok(nodes)
    }

    /// Paths of the reference values.
    pub(crate) fn references(&self) -> Result<Vec<PathBuf>, Failure> {
        self.json_files("references", 256)
    }

    /// Puts policy and reference values there for the join service, unless there are some already.
    pub(crate) fn adopt(&self, trust: &Trust) -> Result<(), Failure> {
        files::make_folder(&self.path("references"))?;
        for (name, content) in &trust.manifests {
            let path = self.path(&format!("references/{name}.json"));
            if !path.exists() {
                files::replace(&path, content, Readers::Anyone)?;
            }
        }
        let path = self.path("policy.json");
        if path.exists() { Ok(()) } else { files::replace(&path, &trust.policy_file, Readers::Anyone) }
    }

    /// Reads a file of closed JSON; `None` if it does not exist.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(None);
        }
        let content = files::read(&path, MAX_RECORD)?;
        serde_json::from_slice(&content).map(Some).map_err(|error| {
            Failure::new(Exit::Usage, "file-malformed", format!("{} cannot be used", path.display()))
                .because(error.to_string())
                .fix("restore it from a copy, or use a release that knows its form")
        })
    }

    /// Replaces a file of JSON atomically.
    pub(crate) fn write<T: Serialize>(&self, name: &str, content: &T, readers: Readers) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(content)
            .map_err(|error| Failure::local("file-unwritable", name).because(error.to_string()))?;
        files::replace(&self.path(name), format!("{text}\n").as_bytes(), readers)
    }

    fn json_files(&self, folder: &str, limit: usize) -> Result<Vec<PathBuf>, Failure> {
        let folder = self.path(folder);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let failed = |error: &std::io::Error| {
            Failure::new(Exit::Usage, "folder-unreadable", format!("cannot read {}", folder.display()))
                .because(error.to_string())
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| failed(&error))?.take(limit) {
            let path = entry.map_err(|error| failed(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}
