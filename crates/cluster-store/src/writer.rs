//! The right to write records and to put revisions in force: one program at a time.

use crate::atomic::{self, Existing};
use crate::cluster::ClusterFile;
use crate::counted::CountedDenials;
use crate::denials::DENY_PATIENCE;
use crate::error::{ContentError, StoreError};
use crate::record::{NodeRecord, Recorded};
use crate::store::{CLUSTER, ClusterStore, NODES};
use latchkey_attestation::EkDigest;
use latchkey_durable_file::lock_within;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Held while it exists; a crash releases it.
///
/// `.lock` counts the writes of all programs, so that one that keeps records in memory knows when another has written.
#[derive(Debug)]
pub struct Writer<'a> {
    directory: &'a ClusterStore,
    lock: File,
    writes: u64,
}

impl<'a> Writer<'a> {
    /// Waits for other writers, not longer than `patience` where there is one.
    pub(crate) fn wait(
        directory: &'a ClusterStore,
        path: &Path,
        patience: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let lock = options.open(path).map_err(StoreError::io("open", path))?;
        let locked = match patience {
            Some(patience) => lock_within(&lock, patience),
            None => flock(&lock, FlockOperation::LockExclusive).map_err(Into::into),
        };
        locked.map_err(StoreError::io("lock", path))?;
        let mut counter = [0; 8];
        // A new or cut lock file counts from 0: a program with records in memory sees a difference and reads them again.
        let read = lock.read_at(&mut counter, 0).map_err(StoreError::io("read", path))?;
        let writes = if read == counter.len() { u64::from_be_bytes(counter) } else { 0 };
        Ok(Self { directory, lock, writes })
    }

    pub(crate) const fn directory(&self) -> &'a ClusterStore {
        self.directory
    }

    /// How many writes there were before. Another number than after one's own last write means that somebody else wrote.
    pub const fn writes(&self) -> u64 {
        self.writes
    }

    /// Removes the unfinished records of writers that crashed. What is left of another file is never read, and goes when the file is
    /// written next.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tidy(&self) -> Result<(), StoreError> {
        atomic::remove_temporaries(&self.directory.path().join(NODES))
    }

    /// Whether a record could be written now: writes a file that nobody reads, durably, and removes it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn try_writing(&self) -> Result<(), StoreError> {
        atomic::try_writing(&self.directory.path().join(NODES))
    }

    /// Writes a record, replacing the one of the same TPM. Durable when this returns.
    ///
    /// The caller answers for names and disks being nobody else's: it has looked while holding this.
    ///
    /// # Errors
    /// [`StoreError`]; the old record is unchanged then, unless only making the new one durable failed.
    pub fn put(&mut self, record: &NodeRecord) -> Result<Recorded, StoreError> {
        self.place(record, Existing::Replace)
    }

    /// Makes a cluster: its first node's record, then `cluster.json`, the mark that it is initialised; it counts the denials that are
    /// there. A crash in between leaves a directory that counts as not initialised, and the same call succeeds later.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a cluster already; it is left as it is.
    pub fn initialise(&mut self, cluster: &ClusterFile, first: &NodeRecord) -> Result<(), StoreError> {
        let path = self.directory.path().join(CLUSTER);
        cluster.check().map_err(StoreError::malformed(&path))?;
        if path.exists() {
            return Err(StoreError::Exists { path });
        }
        drop(self.place(first, Existing::Replace)?);
        let directory = self.directory.opened()?;
        let _turn = self.directory.denials_turn(&directory, DENY_PATIENCE)?;
        let listed = CountedDenials::of(self.directory.denials()?.listed());
        self.directory.write_cluster(&cluster.clone().counting(listed), Existing::Keep)
    }

    /// Makes the record of one machine that of another, to which its disk was moved: the same name, role and disks. The machine it
    /// was of is not on record any more. Durable when this returns; a crash in between leaves both, and the same call ends it.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the other machine has a record of its own.
    pub fn move_record(&mut self, record: &Recorded, to: EkDigest, now: u64) -> Result<Recorded, StoreError> {
        let next = record.moved_to(to, now);
        let path = self.directory.nodes_path().join(format!("{to}.json"));
        match self.directory.record(&to)? {
            Some(half) if half.is_move_of(record) => {}
            Some(_) => return Err(StoreError::Exists { path }),
            None => drop(self.place(&next, Existing::Keep)?),
        }
        self.remove(&record.ek_sha256)?;
        Ok(Recorded::stands(next))
    }

    /// Removes the record of a machine, and what was seen of it. Durable when this returns. Whether there was a record.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remove(&mut self, ek: &EkDigest) -> Result<bool, StoreError> {
        let path = self.directory.nodes_path().join(format!("{ek}.json"));
        self.count()?;
        let removed = atomic::remove(&path)?;
        self.directory.forget_status(ek)?;
        Ok(removed)
    }

    fn place(&mut self, record: &NodeRecord, existing: Existing) -> Result<Recorded, StoreError> {
        let name = format!("{}.json", record.ek_sha256);
        let nodes = self.directory.path().join(NODES);
        record.check().map_err(StoreError::malformed(&nodes.join(&name)))?;
        // Counted before: a write that half succeeded must not go unnoticed.
        self.count()?;
        atomic::write(&nodes, &name, record.to_json().as_bytes(), existing)?;
        Ok(Recorded::stands(record.clone()))
    }

    fn count(&mut self) -> Result<(), StoreError> {
        self.writes = self.writes.wrapping_add(1);
        let written = self.lock.write_all_at(&self.writes.to_be_bytes(), 0);
        written.map_err(StoreError::io("count in", self.directory.path()))
    }
}

/// A record read from a file must be the one the file's name says.
pub(crate) fn check_file_name(name: &str, record: &NodeRecord) -> Result<(), ContentError> {
    if name.strip_suffix(".json") == Some(record.ek_sha256.to_string().as_str()) {
        return Ok(());
    }
    Err(ContentError::Rule(format!("the record is of EK {}, not of the one in the file's name", record.ek_sha256)))
}
