//! The cluster's directory, which the join service reads too: what this command does with it.

mod documents;
mod first_node;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    ClusterFile, ClusterStore, Denials, DiskRelease, NodeRecord, NotDenied, PendingRecord, PinnedRule, ReleaseError,
    ReleaseRefusal, StoreError,
};
use latchkey_keys::{KeyVersion, Uuid};

pub(crate) use first_node::FirstNode;

use crate::admission::{Admission, Removed};
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::owner::as_owner_of;
use crate::seen::Seen;
use crate::store_error::unusable;

/// Held by the one `latchkey init` that works on the directory. Not the directory's own lock: the join service may write
/// records while an init waits.
const HELD: &str = "init.lock";

/// How far `latchkey init` has come there.
pub(crate) const JOURNAL: &str = "init.json";

/// Stands there if the cluster's records and documents are elsewhere.
pub(crate) const STORE: &str = "store.json";

/// A cluster's directory.
pub(crate) struct ClusterDir(ClusterStore);

/// Holds the directory against other commands; gone when dropped.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

/// One of them is in every cluster's directory: `latchkey init` writes the first before it asks the machine, the second once that is locked.
const OF_A_CLUSTER: [&str; 2] = [JOURNAL, "cluster.json"];

fn is_of_a_cluster(path: &Path) -> bool {
    OF_A_CLUSTER.iter().any(|name| path.join(name).exists())
}

impl ClusterDir {
    /// The directory of a cluster at `path`. In any other one nothing is read, and nothing is left behind: what is asked of a
    /// machine there would be done, and heard by nobody.
    pub(crate) fn open(path: &Path) -> Result<Self, CommandError> {
        let Self(directory) = Self::open_lacking(path)?;
        as_owner_of(path, || ClusterStore::open(directory.path()).map(Self).map_err(unusable))
    }

    /// The same, whatever of its places is missing; for who says what that is.
    pub(crate) fn open_lacking(path: &Path) -> Result<Self, CommandError> {
        let missing = |code, what| {
            let failure = CommandError::new(Exit::Missing, code, what);
            Err(failure.fix("name the directory that `latchkey init` was given"))
        };
        if !path.is_dir() {
            return missing(CommandCode::DirectoryMissing, format!("there is no directory {}", path.display()));
        }
        if !is_of_a_cluster(path) {
            return missing(CommandCode::ClusterMissing, format!("{} is no cluster's directory", path.display()));
        }
        Ok(Self(ClusterStore::at(path)))
    }

    /// The directory at `path`, made if it is missing; for `latchkey init` alone, which makes it a cluster's. Of one that is a cluster's
    /// nothing is made anew.
    pub(crate) fn make(path: &Path) -> Result<Self, CommandError> {
        if is_of_a_cluster(path) {
            return Self::open(path);
        }
        files::make_directory(path)?;
        as_owner_of(path, || ClusterStore::make(path).map(Self).map_err(unusable))
    }

    /// Its places that are gone.
    pub(crate) fn missing_places(&self) -> Result<Vec<PathBuf>, CommandError> {
        self.as_owner(|| self.0.missing_places().map_err(unusable))
    }

    /// See [`ClusterStore::known_denials`].
    pub(crate) fn known_denials(&self) -> Result<Denials, CommandError> {
        self.as_owner(|| self.0.known_denials().map_err(unusable))
    }

    /// See [`ClusterStore::count_anew`].
    pub(crate) fn count_anew(&self, denials: u64) -> Result<bool, CommandError> {
        self.as_owner(|| self.0.count_anew(denials).map_err(unusable))
    }

    /// Does what concerns its files.
    pub(crate) fn as_owner<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, CommandError> + Send,
    ) -> Result<T, CommandError> {
        as_owner_of(self.0.path(), work)
    }

    /// Its files.
    pub(crate) fn store(&self) -> &ClusterStore {
        &self.0
    }

    pub(crate) fn shown(&self) -> String {
        self.0.path().display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces, or makes, one of its files that `latchkey init` keeps there.
    pub(crate) fn write(&self, name: &str, content: &[u8], readers: Readers) -> Result<(), CommandError> {
        self.as_owner(|| files::replace(&self.path(name), content, readers))
    }

    /// Two inits never work on one cluster at once.
    pub(crate) fn hold(&self) -> Result<Held, CommandError> {
        let path = self.path(HELD);
        let failed = |error: &std::io::Error| {
            CommandError::local(CommandCode::DirectoryLock, format!("cannot lock {}", path.display()))
                .because(error.to_string())
        };
        // Not as the directory's owner: root's earlier runs made it for root alone. It is locked, and nothing else.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        // A pipe in its place would hold whoever opens it.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
        let file = options.open(&path).map_err(|error| failed(&error))?;
        if !file.metadata().map_err(|error| failed(&error))?.is_file() {
            return Err(failed(&std::io::Error::other("it is no regular file")));
        }
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("another command works on {}", self.shown());
                Err(CommandError::local(CommandCode::DirectoryBusy, what).fix("wait until it is done"))
            }
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }

    /// The cluster, `None` before its first node is locked.
    pub(crate) fn cluster(&self) -> Result<Option<ClusterFile>, CommandError> {
        self.as_owner(|| self.0.cluster().map_err(unusable))
    }

    /// The cluster, which must be there.
    pub(crate) fn required_cluster(&self) -> Result<ClusterFile, CommandError> {
        self.cluster()?.ok_or_else(|| {
            CommandError::new(
                Exit::Missing,
                CommandCode::ClusterMissing,
                format!("{} holds no cluster yet", self.shown()),
            )
        })
    }

    /// All nodes, by name, and what is wrong with records that cannot be read.
    pub(crate) fn nodes(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError> {
        self.as_owner(|| {
            let mut nodes = Vec::new();
            let mut wrong = Vec::new();
            for record in self.0.records().map_err(unusable)? {
                match record {
                    Ok(record) => nodes.push(record.into_inner()),
                    Err(error) => wrong.push(error.to_string()),
                }
            }
            nodes.sort_by(|a, b| a.name.cmp(&b.name));
            Ok((nodes, wrong))
        })
    }

    /// What was last seen of these machines, by their TPMs.
    pub(crate) fn seen(&self, nodes: &[NodeRecord]) -> Result<BTreeMap<EkDigest, Seen>, CommandError> {
        self.as_owner(|| {
            let status = |node: &NodeRecord| Some((node.ek_sha256, self.0.status_of(&node.ek_sha256)?.into()));
            Ok(nodes.iter().filter_map(status).collect())
        })
    }

    /// The version of the master secret that a disk's key comes from, if a record names the disk as one in use.
    pub(crate) fn key_version_of(&self, disk: Uuid) -> Result<Option<KeyVersion>, CommandError> {
        self.as_owner(|| {
            let holders = self.0.holders(disk).map_err(unusable)?;
            Ok(holders.iter().find_map(|record| record.disk(disk)).and_then(|disk| KeyVersion::new(disk.key_version)))
        })
    }

    /// Machines that wait for the operator.
    pub(crate) fn pending(&self) -> Result<Vec<PendingRecord>, CommandError> {
        self.as_owner(|| self.0.pending().map_err(unusable))
    }

    /// TPMs that are shut out.
    pub(crate) fn denials(&self) -> Result<Denials, CommandError> {
        self.as_owner(|| self.0.denials().map_err(unusable))
    }

    pub(crate) fn denial_reason(&self, ek: EkDigest) -> Result<String, CommandError> {
        self.as_owner(|| self.0.denial_reason(&ek).map_err(unusable))
    }

    pub(crate) fn deny(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        self.as_owner(|| self.0.deny(&ek, reason).map_err(unusable))
    }

    pub(crate) fn allow(&self, ek: EkDigest) -> Result<bool, CommandError> {
        self.as_owner(|| self.0.allow(&ek).map_err(unusable))
    }

    /// Gives a TPM that is not shut out a rule of its own.
    pub(crate) fn admit(&self, of: &NotDenied, said: &Admission) -> Result<PinnedRule, CommandError> {
        self.as_owner(|| {
            let mut writer = self.0.writer().map_err(unusable)?;
            let mut rules = self.0.enrolment().map_err(unusable)?;
            let rule = said.write_into(&mut rules, of);
            writer.write_enrolment(&rules).map_err(unusable)?;
            writer.forget_pending(&of.ek()).map_err(unusable)?;
            Ok(rule)
        })
    }

    /// Removes a machine's record and rule, if there is one of them.
    pub(crate) fn remove(&self, ek: EkDigest) -> Result<Option<Removed>, CommandError> {
        self.as_owner(|| {
            // Before anything is removed: who cannot say it afterwards says what is not so.
            let denied = self.0.denials().map_err(unusable)?.has(&ek);
            let mut writer = self.0.writer().map_err(unusable)?;
            let mut rules = self.0.enrolment().map_err(unusable)?;
            // The rule first: a machine that asks in between is not let in again.
            let had_rule = rules.forget(&ek);
            if had_rule {
                writer.write_enrolment(&rules).map_err(unusable)?;
            }
            let is_removed = writer.remove(&ek).map_err(unusable)? || had_rule;
            Ok(is_removed.then_some(Removed { denied }))
        })
    }

    /// The witness for this disk in this machine, by the record.
    pub(crate) fn release(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError> {
        self.as_owner(|| self.0.release(&ek, disk).map_err(not_released))
    }

    /// Puts a disk on the record of another machine, because the operator says that it is there now; and the machine that it was
    /// of, if it was not of this one before.
    pub(crate) fn move_disk(&self, disk: Uuid, to: EkDigest) -> Result<(DiskRelease, Option<EkDigest>), CommandError> {
        self.as_owner(|| {
            let not_denied = self.0.not_denied(&to).map_err(not_released)?;
            let mut writer = self.0.writer().map_err(unusable)?;
            let before = self.0.holders(disk).map_err(unusable)?.into_iter().find(|record| record.ek_sha256 != to);
            let Some(before) = before else { return Ok((self.release(to, disk)?, None)) };
            // A disk that was replaced is nobody's any more, wherever it is.
            before.version_of(disk).map_err(|refusal| refused(&refusal))?;
            let moved = writer.move_record(&before, to, now()).map_err(|error| match error {
                StoreError::Exists { .. } => has_a_record(to),
                other => unusable(other),
            })?;
            let release = moved.release(disk, &not_denied).map_err(|refusal| refused(&refusal))?;
            Ok((release, Some(before.ek_sha256)))
        })
    }
}

/// A disk cannot be moved to a machine that is another node already.
pub(crate) fn has_a_record(to: EkDigest) -> CommandError {
    let what = format!("the TPM {to} has a record of its own");
    let failure = CommandError::new(Exit::Usage, CommandCode::MachineOnRecord, what);
    failure.fix("remove that record with `latchkey node remove`, if the machine is to have this disk instead")
}

fn not_released(error: ReleaseError) -> CommandError {
    match error {
        ReleaseError::Refused(refusal) => refused(&refusal),
        ReleaseError::Store(error) => unusable(error),
    }
}

/// The machine proved what it runs, and is not the one that the key is for.
pub(crate) fn refused(refusal: &ReleaseRefusal) -> CommandError {
    let code = refusal.code();
    CommandError::new(Exit::Attestation, code, refusal.to_string())
}
