//! A disk in memory, and one that our own code formatted.

use std::io;

use latchkey_disk::{BlockDevice, KernelRandom, NodeState, Phase, Probe, Role, probe};
use latchkey_keys::{ClusterId, Secret};

/// Bytes of the disk.
pub const DISK: u64 = 32 << 20;

/// A disk of [`DISK`] bytes that is zero behind what is in memory.
pub struct MemoryDisk(pub Vec<u8>);

impl BlockDevice for MemoryDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(DISK)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if end > DISK {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let there = self.0.get(at..).unwrap_or_default();
        let length = there.len().min(buffer.len());
        buffer[..length].copy_from_slice(&there[..length]);
        buffer[length..].fill(0);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let end = at.checked_add(bytes.len()).filter(|&end| end as u64 <= DISK).ok_or(io::ErrorKind::UnexpectedEof)?;
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that our own code formatted.
#[allow(dead_code, reason = "not every target wants one")]
pub fn formatted() -> Vec<u8> {
    let mut disk = MemoryDisk(Vec::new());
    let Ok(Probe::Fresh(fresh)) = probe(&disk) else { panic!("a blank disk is fresh") };
    let state = NodeState {
        role: Role::Worker,
        node_name: "node-1".parse().expect("a name"),
        cluster_id: ClusterId::from_bytes([0xc1; 32]),
        measurement_salt: [0x5a; 32],
        phase: Phase::Formatted,
        epoch: 7,
        attempt: 1,
    };
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse().expect("a UUID");
    let key = Secret::from_slice(&[0x42; 32]).expect("32 bytes");
    drop(fresh.format(&mut disk, uuid, &key, state, &mut KernelRandom).expect("memory does not fail"));
    disk.0.resize(DISK as usize, 0);
    disk.0
}
