//! The records of a directory, for a program that keeps them in memory.

use crate::damaged::DamagedRecord;
use crate::error::StoreError;
use crate::pending::PendingRecord;
use crate::record::{NodeRecord, Recorded};
use crate::record_store::{Listing, News, PutError, RecordStore, Turn};
use crate::status::{NodeStatus, Statuses};
use crate::store::ClusterStore;
use crate::writer::Writer;
use latchkey_attestation::EkDigest;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The records of a [`ClusterStore`]. `.lock` counts what is written, so that everything is read anew only where others wrote.
#[derive(Debug)]
pub struct FolderRecords {
    directory: ClusterStore,
    /// The directory's count of writes when it was read or written here last; `None` where that is not known.
    seen: Mutex<Option<u64>>,
    statuses: Statuses,
}

struct FolderTurn<'a> {
    records: &'a FolderRecords,
    writer: Writer<'a>,
}

impl FolderRecords {
    /// The records of this directory, tidied up after crashes, and its denials.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(directory: ClusterStore) -> Result<Self, StoreError> {
        // Before the right to write is taken, which others wait for.
        directory.finish_denials()?;
        directory.writer()?.tidy()?;
        Ok(Self { directory, seen: Mutex::new(None), statuses: Statuses::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Option<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for record in self.directory.records()? {
            match record {
                Ok(record) => listing.records.push(record),
                // Removed between listing and reading.
                Err(error) if error.is_absent() => {}
                Err(error) => listing.damaged.push(DamagedRecord::look(&error)),
            }
        }
        Ok(listing)
    }
}

impl RecordStore for FolderRecords {
    fn turns_at_once(&self) -> usize {
        1
    }

    fn turn(&self) -> Result<Box<dyn Turn + '_>, StoreError> {
        Ok(Box::new(FolderTurn { records: self, writer: self.directory.writer()? }))
    }

    fn doubt(&self) {
        *self.seen() = None;
    }

    fn held(&self) -> Option<Vec<EkDigest>> {
        let pending = self.directory.pending().ok()?;
        Some(pending.iter().map(|held| held.ek_sha256).collect())
    }

    fn show_status(&self, ek: EkDigest, status: NodeStatus) {
        self.statuses.show(&self.directory, ek, status);
    }
}

impl Turn for FolderTurn<'_> {
    fn news(&mut self) -> Result<News, StoreError> {
        let writes = Some(self.writer.writes());
        if *self.records.seen() == writes {
            return Ok(News::None);
        }
        let listing = self.records.listing()?;
        *self.records.seen() = writes;
        Ok(News::All(listing))
    }

    fn look_at(&mut self, _: &EkDigest) -> Result<bool, StoreError> {
        // Whoever has the turn sees every write in the count.
        Ok(true)
    }

    /// Whoever has the turn has looked: names, disks and the lease are as the decision found them.
    fn put(&mut self, record: &NodeRecord, _: Option<&Recorded>) -> Result<Recorded, PutError> {
        let written = self.writer.put(record);
        // After a failure it is not known what is on disk: the next turn looks.
        *self.records.seen() = written.is_ok().then(|| self.writer.writes());
        Ok(written?)
    }

    fn hold(&mut self, asks: &PendingRecord) -> Result<(), StoreError> {
        self.writer.hold(asks)
    }

    fn try_writing(&mut self) -> Result<(), StoreError> {
        self.writer.try_writing()
    }
}
