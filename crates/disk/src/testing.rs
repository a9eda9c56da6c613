//! Fixtures of this crate's tests: disks in memory, one of which records every write for the power-cut tests.

use crate::block::BlockDevice;
use crate::luks2::{NewDisk, NodeState, Phase, Role, SegmentMode, UnlockedDisk};
use crate::probe::{Fresh, Probe, probe};
use crate::random::fixed::Counting;
use crate::superblock::{Geometry, fixture::superblock};
use latchkey_keys::{ClusterId, Secret, Uuid};
use std::io;

pub(crate) const DISK_SIZE: usize = 4 << 20;

pub(crate) fn key() -> Secret<32> {
    Secret::from_slice(&[0x42; 32]).unwrap()
}

pub(crate) fn uuid() -> Uuid {
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse().unwrap()
}

pub(crate) fn state() -> NodeState {
    NodeState {
        role: Role::Worker,
        node_name: "node-1.edge".parse().unwrap(),
        cluster_id: ClusterId::from_bytes([0xc1; 32]),
        measurement_salt: [0x5a; 32],
        phase: Phase::Formatted,
        epoch: 7,
        attempt: 1,
    }
}

/// A disk in memory that remembers what was written in which order. A fake: real disks do not tell.
#[derive(Clone)]
pub(crate) struct MemoryDisk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) log: Vec<Event>,
}

#[derive(Clone)]
pub(crate) enum Event {
    Write { offset: usize, bytes: Vec<u8> },
    Flush,
}

impl MemoryDisk {
    pub(crate) fn blank(size: usize) -> Self {
        Self::holding(vec![0; size])
    }

    pub(crate) fn holding(bytes: Vec<u8>) -> Self {
        Self { bytes, log: Vec::new() }
    }

    pub(crate) fn formatted(size: usize) -> Self {
        let mut disk = Self::blank(size);
        format(&mut disk);
        Self::holding(disk.bytes)
    }
}

impl BlockDevice for MemoryDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let bytes = self.bytes.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        assert!(offset.is_multiple_of(512) && bytes.len().is_multiple_of(512), "writes are whole sectors");
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.log.push(Event::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.push(Event::Flush);
        Ok(())
    }
}

pub(crate) fn fresh(disk: &impl BlockDevice) -> Fresh {
    match probe(disk).unwrap() {
        Probe::Fresh(fresh) => fresh,
        other => panic!("not fresh: {other:?}"),
    }
}

pub(crate) fn format(disk: &mut impl BlockDevice) -> UnlockedDisk {
    fresh(disk).format(disk, uuid(), &key(), state(), &mut Counting::new(3)).unwrap()
}

pub(crate) fn unlocked(size: usize) -> UnlockedDisk {
    format(&mut MemoryDisk::blank(size))
}

/// A disk of the authenticated mode, as the kernel would have made it. Its superblock stands where the kernel puts it.
pub(crate) fn authenticated(geometry: Geometry) -> UnlockedDisk {
    format_authenticated(&mut MemoryDisk::blank(DISK_SIZE), geometry)
}

pub(crate) fn format_authenticated(disk: &mut MemoryDisk, geometry: Geometry) -> UnlockedDisk {
    let random = &mut Counting::new(3);
    let new = NewDisk { mode: SegmentMode::Authenticated, uuid: uuid(), key: &key(), state: state() };
    let mut draft = fresh(disk).begin(disk, new, random).unwrap();
    disk.write_at(draft.unlocked().data_offset(), &superblock(geometry)).unwrap();
    disk.flush().unwrap();
    draft.measured(geometry);
    draft.finish(disk, random).unwrap()
}
