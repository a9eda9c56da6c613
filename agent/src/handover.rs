//! What stage 1 leaves for stage 2: one file in memory that only root reads, gone when stage 2 ends.
//!
//! It holds no disk key. What it holds of secrets is the key of the token's MAC, so that stage 2 can say that the
//! bootstrap is done, the join ticket's cluster material, and the hash of the init secret.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::v1::Components;
use latchkey_durable_file::{Directory, Existing, Links, ReadError, put, read_plain};
use prost::Message;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::lifecycle::{DiskPhase, NodeRole};

/// Where stage 1 puts it: `/run` is a tmpfs that moves along into the OS.
pub const PATH: &str = "/run/latchkey/handover.json";

/// The largest hand-over: a ticket's cluster material is at most some hundred KiB.
const MAX_BYTES: usize = 1024 * 1024;

/// The hand-over, version 1.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// Always 1.
    pub version: u8,
    /// RFC 1123 subdomain.
    pub node_name: String,
    /// What the node is in its cluster.
    pub role: NodeRole,
    /// 64 hex digits.
    pub cluster_id: String,
    /// Name of the cluster, where known.
    pub cluster_name: String,
    /// Lower-case UUID of the LUKS2 header.
    pub disk_uuid: String,
    /// What the token says. The image's `state-file-system` looks for it in the text.
    pub phase: DiskPhase,
    /// Bootstraps of this disk that failed before.
    pub attempts: u8,
    /// The block device below, e.g. `/dev/vda`.
    pub device: String,
    /// The open mapping, e.g. `/dev/mapper/state`.
    pub mapping: String,
    /// Authenticates the token.
    pub token_key: SecretText,
    /// What there is to do.
    pub task: Task,
    /// The resolved join services, `host:port`, for the report.
    pub join_services: Vec<String>,
    /// Milliseconds since power-on at which stage 1 left.
    pub left_at_ms: u64,
}

/// What stage 2 has to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Task {
    /// Make the cluster.
    Init {
        /// `latchkey.v1.ClusterSettings`, encoded.
        settings: SecretText,
        /// `latchkey.v1.ControlPlaneFiles`, encoded; empty where the cluster step makes its own.
        control_plane_files: SecretText,
        /// bcrypt; whoever attaches must know the secret.
        init_secret_hash: String,
        /// What the cluster is registered with at its centre; empty where the operator gave nothing.
        invitation: SecretText,
    },
    /// Become a member.
    Join {
        /// `latchkey.v1.ClusterJoin`, encoded.
        cluster: SecretText,
    },
    /// A member's reboot.
    Start {
        /// `latchkey.v1.Components`, encoded; empty where nobody said what the cluster has.
        components: SecretText,
    },
}

impl Task {
    /// A member's reboot, with what its cluster has of Kubernetes.
    pub fn start(components: Option<&Components>) -> Self {
        let encoded = components.map_or_else(Vec::new, Message::encode_to_vec);
        Self::Start { components: SecretText::keep(Zeroizing::new(encoded)) }
    }
}

/// Bytes that travel as base64 in the file and are wiped when dropped.
pub struct SecretText(Zeroizing<Vec<u8>>);

impl SecretText {
    /// Keeps a copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// Keeps `bytes` themselves.
    pub fn keep(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("[secret]")
    }
}

impl Serialize for SecretText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(STANDARD.encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let bytes = STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(Zeroizing::new(bytes)))
    }
}

impl core::fmt::Debug for HandOver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HandOver").field("node_name", &self.node_name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// Why there is no usable hand-over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The file is not there: stage 1 did not run, or stage 2 already ended.
    #[error("{PATH} is missing: stage 1 did not run in this boot, or stage 2 already ended")]
    Missing,
    /// The file belongs to somebody else, others may read it, or it is no plain file.
    #[error("{PATH} is not to be trusted: {0}")]
    Exposed(String),
    /// Not a hand-over of this version.
    #[error("{PATH} is not a hand-over of this agent: {0}")]
    Malformed(String),
    /// The file system said no.
    #[error("{PATH}: {0}")]
    Io(io::Error),
}

impl HandOver {
    /// Writes the file, new and 0600, in a directory that only root enters.
    pub fn write(&self, path: &Path) -> Result<(), HandOverError> {
        let text = self.text()?;
        let write = || {
            let directory = path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            put(path, 0o600, &text, Existing::Keep)
        };
        write().map_err(HandOverError::Io)
    }

    /// Written into room for all of it: a buffer that grows would leave copies of secrets behind.
    fn text(&self) -> Result<Zeroizing<Vec<u8>>, HandOverError> {
        let malformed = |error: serde_json::Error| HandOverError::Malformed(error.to_string());
        let mut length = Length(0);
        serde_json::to_writer(&mut length, self).map_err(malformed)?;
        if length.0 > MAX_BYTES {
            return Err(HandOverError::Malformed(format!("{} bytes, at most {MAX_BYTES}", length.0)));
        }
        let mut text = Zeroizing::new(Vec::with_capacity(length.0));
        serde_json::to_writer(&mut *text, self).map_err(malformed)?;
        Ok(text)
    }

    /// Reads the file that only `owner` (a user id; 0 outside tests) may have written.
    pub fn read(path: &Path, owner: u32) -> Result<Self, HandOverError> {
        let opened = Directory::of(path).and_then(|(directory, name)| directory.open_file(name, Links::Refused));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => HandOverError::Missing,
            _ => HandOverError::Io(error),
        })?;
        let about = file.metadata().map_err(HandOverError::Io)?;
        if !about.is_file() || about.uid() != owner || about.mode() & 0o077 != 0 {
            let why =
                format!("owner {}, mode {:o}; it must be a file of user {owner}, mode 600", about.uid(), about.mode());
            return Err(HandOverError::Exposed(why));
        }
        let text = read_plain(&file, MAX_BYTES).map_err(|error| match error {
            ReadError::Io(error) => HandOverError::Io(error),
            other => HandOverError::Malformed(other.to_string()),
        })?;
        let handover: Self = serde_json::from_slice(&text).map_err(|e| HandOverError::Malformed(e.to_string()))?;
        if handover.version == 1 {
            Ok(handover)
        } else {
            Err(HandOverError::Malformed(format!("version {}, expected 1", handover.version)))
        }
    }
}

/// Counts what is written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Overwrites and removes the file: in its place, for a new one beside it would leave the secrets. That it is gone already is success.
pub fn wipe(path: &Path) -> io::Result<()> {
    let length = match std::fs::symlink_metadata(path) {
        Ok(about) => about.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let zeroes = vec![0; usize::try_from(length).unwrap_or(MAX_BYTES).min(MAX_BYTES)];
    OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?.write_all(&zeroes)?;
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handover() -> HandOver {
        HandOver {
            version: 1,
            node_name: "edge-1".into(),
            role: NodeRole::Worker,
            cluster_id: "00".repeat(32),
            cluster_name: String::new(),
            disk_uuid: "f81d4fae-7dec-41d0-a765-00a0c91e6bf6".into(),
            phase: DiskPhase::Formatted,
            attempts: 0,
            device: "/dev/vda".into(),
            mapping: "/dev/mapper/state".into(),
            token_key: SecretText::new(b"token key"),
            task: Task::Join { cluster: SecretText::new(b"cluster") },
            join_services: vec!["10.0.2.2:7000".into()],
            left_at_ms: 1,
        }
    }

    fn me(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().uid()
    }

    #[test]
    fn what_stage_1_writes_stage_2_reads_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/handover.json");
        handover().write(&path).unwrap();
        assert!(handover().write(&path).is_err(), "an old hand-over is never overwritten");
        let read = HandOver::read(&path, me(directory.path())).unwrap();
        assert_eq!((read.node_name.as_str(), read.token_key.expose()), ("edge-1", &b"token key"[..]));
        wipe(&path).unwrap();
        assert!(matches!(HandOver::read(&path, me(directory.path())), Err(HandOverError::Missing)));
        wipe(&path).unwrap();
    }

    /// `image/systemd/state-file-system` looks for just these bytes, and without them makes no file system.
    #[test]
    fn whoever_makes_the_state_disks_file_system_finds_the_phase_in_the_text() {
        let found = |phase| {
            let text = HandOver { phase, ..handover() }.text().unwrap();
            String::from_utf8(text.to_vec()).unwrap().contains(r#""phase":"formatted""#)
        };
        assert!(found(DiskPhase::Formatted));
        assert!(!found(DiskPhase::Bootstrapped));
        let script = include_str!("../../image/systemd/state-file-system");
        assert!(script.contains(r#"grep -q '"phase":"formatted"' /run/latchkey/handover.json"#));
    }

    #[test]
    fn a_file_that_others_can_read_a_link_and_an_odd_field_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let path = directory.join("handover.json");
        handover().write(&path).unwrap();
        let owner = me(directory);
        let link = directory.join("link.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(HandOver::read(&link, owner), Err(HandOverError::Io(_))));
        assert!(matches!(HandOver::read(&path, owner + 1), Err(HandOverError::Exposed(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(HandOver::read(&path, owner), Err(HandOverError::Exposed(_))));
        let odd = std::fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":1,\"debug\":true");
        let odd_path = directory.join("odd.json");
        std::fs::write(&odd_path, odd).unwrap();
        std::fs::set_permissions(&odd_path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(HandOver::read(&odd_path, owner), Err(HandOverError::Malformed(_))));
    }

    #[test]
    fn nothing_secret_is_in_its_debug_form() {
        let shown = format!("{:?} {:?}", handover(), handover().token_key);
        assert!(!shown.contains("token key") && !shown.contains("dG9rZW4"));
    }
}
