//! The log: groups of changes, appended one after the other and made durable by one fsync each, until the database has them.
//!
//! The file is as long as it may become from its beginning, and filled with zeros: an fsync then writes what was appended and
//! nothing else, and a full disk is met when the log is made. Its head has a mark and a random key; records stand behind it.
//! Once the database has all groups the next one is written to the beginning again: records behind the last one are then of
//! smaller numbers, and end the log as anything else does that is no record of the next number.

mod disk;
mod record;
mod scan;

use std::io;

pub(crate) use disk::{Disk, Place};
pub(crate) use record::{Key, Logged};
pub(crate) use scan::{Damage, Scan};

use crate::{Change, WriteError};

/// How long a log is, but for a group that has no room in it.
pub(crate) const LENGTH: u64 = 4 << 20;
/// Where records begin: head and records never share a sector.
const BEGIN: usize = 4096;
const MARK: &[u8; 16] = b"latchkey log 1\n\0";
/// A buffer that grew beyond this for one group is given back.
const BUFFER: usize = 256 << 10;

/// A log that is open for writing.
pub(crate) struct Log {
    disk: Box<dyn Disk>,
    key: Key,
    /// The number of the last group that the database had when the log began anew.
    before: u64,
    /// The number of the last group.
    last: u64,
    /// Where the next record goes.
    end: u64,
    buffer: Vec<u8>,
}

impl Log {
    /// Makes a log with a new key and no records, durably but for its name. The database has all groups up to `last`.
    pub(crate) fn create(disk: Box<dyn Disk>, last: u64) -> io::Result<Self> {
        let mut key = [0; 16];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        let key = Key(u128::from_le_bytes(key));
        disk.set_len(0)?;
        let zeros = vec![0; BUFFER];
        for at in (0..LENGTH).step_by(BUFFER) {
            disk.write(at, &zeros)?;
        }
        let sum = key.checksum(MARK).to_le_bytes();
        disk.write(0, &[&MARK[..], &key.0.to_le_bytes(), &sum].concat())?;
        disk.sync_all()?;
        Ok(Self::at_beginning(disk, key, last))
    }

    /// A log that the database has, or gets, all groups of, up to `last`.
    pub(crate) const fn at_beginning(disk: Box<dyn Disk>, key: Key, last: u64) -> Self {
        Self { disk, key, before: last, last, end: BEGIN as u64, buffer: Vec::new() }
    }

    pub(crate) const fn key(&self) -> Key {
        self.key
    }

    /// The number of the last group.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Whether there is no group in it that the database may lack.
    pub(crate) const fn is_empty(&self) -> bool {
        self.end == BEGIN as u64
    }

    /// Whether the database should have its groups before these changes are appended.
    pub(crate) fn is_full_for(&self, changes: &[Change]) -> bool {
        !self.is_empty() && self.end + record::length(changes) > LENGTH
    }

    /// Appends a group, durably. After an error none of it counts: the next one takes its place.
    pub(crate) fn append(&mut self, changes: &[Change]) -> Result<(), WriteError> {
        record::write(&mut self.buffer, self.key, self.last + 1, changes)?;
        let written = self.disk.write(self.end, &self.buffer).and_then(|()| self.disk.sync_data());
        let length = self.buffer.len();
        if self.buffer.capacity() > BUFFER {
            self.buffer = Vec::new();
        }
        if let Err(error) = written {
            // It may stand there whole, and would count when this process dies before the next group. If the disk does not take
            // this either, the next group takes its place.
            drop(self.disk.write(self.end, &[0; record::HEAD]).and_then(|()| self.disk.sync_data()));
            return Err(WriteError::Storage(error.to_string().into()));
        }
        self.end += length as u64;
        self.last += 1;
        Ok(())
    }

    /// Its bytes, as they are on the disk.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.end).map_err(io::Error::other)?];
        self.disk.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// All changes in the bytes that [`Log::read`] gave.
    pub(crate) fn changes<'a>(&self, bytes: &'a [u8]) -> Result<Vec<Logged<'a>>, Damage> {
        let scan = Scan::of(bytes, self.key, self.before)?;
        if scan.last() == self.last { Ok(scan.changes().collect()) } else { Err(Damage::Changed { last: self.last }) }
    }

    /// Begins anew, once the database has all groups.
    pub(crate) fn restart(&mut self) {
        if self.end > LENGTH {
            // What a long group took. If it stays it is taken back the next time.
            drop(self.disk.set_len(LENGTH));
        }
        self.end = BEGIN as u64;
        self.before = self.last;
    }
}

/// The key in a log's head; none where it is no log, or its head was never written as a whole.
pub(crate) fn key_of(bytes: &[u8]) -> Option<Key> {
    let rest = bytes.strip_prefix(MARK)?;
    let (key, rest) = rest.split_first_chunk()?;
    let key = Key(u128::from_le_bytes(*key));
    (rest.first_chunk()? == &key.checksum(MARK).to_le_bytes()).then_some(key)
}

/// Whether a log's bytes have any record.
pub(crate) fn has_records(bytes: &[u8], key: Key) -> bool {
    record::find_above(bytes, key, 0).is_some()
}

#[cfg(test)]
mod tests;
