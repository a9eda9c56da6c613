//! Gives a disk back after a first bootstrap that failed: key material away, headers away, a marker that says why.

use crate::block::BlockDevice;
use crate::error::{DiskError, io};
use crate::luks2::{HEADERS, MIB};
use crate::marker::{Marker, ResetMarker, SECTOR, Step};

/// Permission to destroy what is on a disk. Given only for disks whose first bootstrap was never finished: there is no
/// way to write code that resets a bootstrapped node's disk.
#[derive(Debug)]
#[must_use]
pub struct ResetPermit(());

impl ResetPermit {
    pub(crate) const fn granted() -> Self {
        Self(())
    }
}

/// Wipes the disk's header region and leaves `marker` behind.
///
/// The marker goes first, as "resetting": from that sector on every probe says fresh, and a reset that a power cut
/// interrupts is finished by the next format or the next call of this. Then, each durable before the next begins: the
/// key slots, without which nobody gets the volume key again; the headers; the marker again, as "reset".
///
/// Flash may keep old copies of overwritten sectors. What protects those is that the disk's key is issued to proven
/// nodes only.
///
/// # Errors
/// [`DiskError::Io`]; the disk is then resettable still.
pub fn reset(device: &mut impl BlockDevice, permit: ResetPermit, marker: &ResetMarker) -> Result<(), DiskError> {
    drop(permit);
    mark(device, Step::Resetting, marker)?;
    wipe(device, HEADERS, MIB)?;
    wipe(device, SECTOR as u64, HEADERS)?;
    mark(device, Step::Reset, marker)
}

fn mark(device: &mut impl BlockDevice, step: Step, marker: &ResetMarker) -> Result<(), DiskError> {
    let sector = Marker { step, reset: marker.clone() }.to_sector();
    device.write_at(0, &sector).map_err(io("write the reset marker"))?;
    device.flush().map_err(io("flush the reset marker"))
}

fn wipe(device: &mut impl BlockDevice, from: u64, to: u64) -> Result<(), DiskError> {
    #[expect(clippy::cast_possible_truncation, reason = "at most 1 MiB fits any usize")]
    let zeros = vec![0; (to - from) as usize];
    device.write_at(from, &zeros).map_err(io("wipe the disk's header"))?;
    device.flush().map_err(io("flush the wiped header"))
}
