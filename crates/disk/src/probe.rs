//! Looks at a device once and says what it is. Nothing with a byte of somebody's in its first or last MiB is called fresh.

use crate::block::BlockDevice;
use crate::bytes::is_zero;
use crate::error::{DiskError, io};
use crate::foreign::{self, Foreign};
use crate::luks2::{
    Draft, HEADER_SIZES, MAGIC_PRIMARY, MAGIC_SECONDARY, MIB, NewDisk, NodeState, SegmentMode, UncheckedHeader,
    UnlockedDisk,
};
use crate::marker::{Marker, Reading, ResetMarker, Step};
use crate::random::Random;
use crate::reset::ResetPermit;
use latchkey_boot_formats::slice_at;
use latchkey_keys::{Secret, Uuid};
use latchkey_reason::reason_codes;

/// What is read from the beginning, and looked at at the end: room for every header of the closed list, and for the
/// signatures of all common file systems, partition tables and RAIDs, which stand in the first or last 128 KiB.
const REGION: u64 = MIB;

/// Smaller devices are refused: a header, a backup partition table's place and some data must fit.
pub const MIN_SIZE: u64 = 4 * MIB;

/// What a device is.
#[derive(Debug)]
pub enum Probe {
    /// Blank, or marked by us as holding nothing worth keeping. May be formatted.
    Fresh(Fresh),
    /// Carries a LUKS2 magic. Whether it is acceptable says [`UncheckedHeader::check`].
    Existing(UncheckedHeader),
    /// Anything else: never touched.
    Refused(DiskRefusal),
}

/// The witness that a device may be formatted. Only [`probe`] makes it.
#[derive(Debug)]
pub struct Fresh {
    marker: Option<Marker>,
}

impl Fresh {
    /// How often the disk was reset and why, if it was. Unauthenticated advice.
    pub fn reset_marker(&self) -> Option<&ResetMarker> {
        self.marker.as_ref().map(|marker| &marker.reset).filter(|reset| **reset != ResetMarker::default())
    }

    /// Whether a reset was cut off before it had wiped everything. Format anyway, or [`crate::reset()`] again.
    pub fn unfinished_reset(&self) -> Option<ResetPermit> {
        self.marker.as_ref().filter(|marker| marker.step == Step::Resetting).map(|_| ResetPermit::granted())
    }

    /// Formats the device in the confidential mode, which takes nothing but its header: a new volume key, its key slot
    /// under `key`, the header with `state` under its MAC. [`crate::Mapping::format`] knows both modes.
    ///
    /// A power cut leaves the device fresh (with the same reset marker) or formatted; see `Draft` for the order.
    ///
    /// # Errors
    /// I/O, no random bytes, or a state whose phase is not `formatted`.
    pub fn format(
        self,
        device: &mut impl BlockDevice,
        uuid: Uuid,
        key: &Secret<32>,
        state: NodeState,
        random: &mut impl Random,
    ) -> Result<UnlockedDisk, DiskError> {
        let new = NewDisk { mode: SegmentMode::Confidential, uuid, key, state };
        self.begin(device, new, random)?.finish(device, random)
    }

    /// Begins to format the device; see [`Draft`].
    pub(crate) fn begin(
        self,
        device: &mut impl BlockDevice,
        new: NewDisk<'_>,
        random: &mut impl Random,
    ) -> Result<Draft, DiskError> {
        let reset = self.marker.map(|marker| marker.reset).unwrap_or_default();
        Draft::begin(device, new, &Marker { step: Step::Formatting, reset }, random)
    }
}

/// Reads the device's beginning once, and its end, and decides.
///
/// # Errors
/// [`DiskError::Io`] only; what is wrong with the content is [`Probe::Refused`].
pub fn probe(device: &impl BlockDevice) -> Result<Probe, DiskError> {
    let size = device.size().map_err(io("ask for the disk's size"))?;
    if size < MIN_SIZE {
        return Ok(Probe::Refused(DiskRefusal::TooSmall { size }));
    }
    let region = beginning(device)?;
    match Marker::read(&region) {
        Reading::Present(marker) => return Ok(Probe::Fresh(Fresh { marker: Some(marker) })),
        Reading::Damaged => return Ok(Probe::Refused(DiskRefusal::MarkerDamaged)),
        Reading::Absent => {}
    }
    if has_luks_magic(&region) {
        return Ok(Probe::Existing(UncheckedHeader::from_bytes(region, size)));
    }
    if !is_zero(&region) {
        return Ok(Probe::Refused(DiskRefusal::Foreign(foreign::recognise(&region))));
    }
    // A partition table or RAID may have its last copy at the end only.
    if !is_blank(device, size - REGION, size)? {
        return Ok(Probe::Refused(DiskRefusal::EndNotBlank));
    }
    Ok(Probe::Fresh(Fresh { marker: None }))
}

/// The header of a device that must have one.
pub(crate) fn existing(device: &impl BlockDevice) -> Result<UncheckedHeader, DiskError> {
    match probe(device)? {
        Probe::Existing(header) => Ok(header),
        Probe::Fresh(_) => Err(DiskRefusal::NoHeader.into()),
        Probe::Refused(refusal) => Err(refusal.into()),
    }
}

/// Whether the device is zero between two offsets; in small pieces, since the boot's memory is promised to be small.
fn is_blank(device: &impl BlockDevice, from: u64, to: u64) -> Result<bool, DiskError> {
    let mut piece = vec![0; 1 << 16];
    for offset in (from..to).step_by(piece.len()) {
        let rest = usize::try_from(to - offset).unwrap_or(usize::MAX).min(piece.len());
        let piece = piece.get_mut(..rest).unwrap_or_default();
        device.read_at(offset, piece).map_err(io("read the disk's end"))?;
        if !is_zero(piece) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn beginning(device: &impl BlockDevice) -> Result<Vec<u8>, DiskError> {
    #[expect(clippy::cast_possible_truncation, reason = "1 MiB fits any usize")]
    let mut region = vec![0; REGION as usize];
    device.read_at(0, &mut region).map_err(io("read the disk's header"))?;
    Ok(region)
}

/// Whether either copy's magic is in a place where the specification allows it.
fn has_luks_magic(region: &[u8]) -> bool {
    let magic_at = |offset: u64, magic: [u8; 6]| {
        usize::try_from(offset).is_ok_and(|offset| slice_at(region, offset, 6) == Some(&magic[..]))
    };
    magic_at(0, MAGIC_PRIMARY) || HEADER_SIZES.iter().any(|&offset| magic_at(offset, MAGIC_SECONDARY))
}

/// Why a device is neither fresh nor ours. Nothing was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskRefusal {
    /// Too small to hold header and data.
    #[error("the state disk has {size} bytes and needs {MIN_SIZE}")]
    TooSmall {
        /// Bytes it has.
        size: u64,
    },
    /// Sector 0 begins like our marker but is not one.
    #[error("the state disk's reset marker is damaged")]
    MarkerDamaged,
    /// Something else is on it.
    #[error("the state disk holds {0}")]
    Foreign(Foreign),
    /// The beginning is blank, the end is not.
    #[error("the state disk's first MiB is blank and its last is not")]
    EndNotBlank,
    /// A header was expected, and there is none.
    #[error("the state disk has no header: it was reset or exchanged")]
    NoHeader,
}

reason_codes! {
    /// Why a device is neither fresh nor ours; it stays untouched.
    pub enum DiskCode {
        /// Too small to hold header and data.
        TooSmall = "disk-too-small": "give the node a larger disk";
        /// Sector 0 begins like a reset marker and is none.
        MarkerDamaged = "disk-marker-damaged":
            "wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) if nothing on it is needed";
        /// Something else is on it.
        Foreign = "disk-foreign-data":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) if nothing on it is needed";
        /// The beginning is blank, the end is not.
        EndNotBlank = "disk-end-not-blank":
            "wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) if nothing on it is needed";
        /// A header was expected, and there is none.
        NoHeader = "disk-no-header": "reboot the node";
    }
}

impl DiskRefusal {
    /// The stable reason code.
    pub const fn code(self) -> DiskCode {
        match self {
            Self::TooSmall { .. } => DiskCode::TooSmall,
            Self::MarkerDamaged => DiskCode::MarkerDamaged,
            Self::Foreign(_) => DiskCode::Foreign,
            Self::EndNotBlank => DiskCode::EndNotBlank,
            Self::NoHeader => DiskCode::NoHeader,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DISK_SIZE, MemoryDisk};

    fn refusal(at: usize, bytes: &[u8]) -> DiskRefusal {
        let mut disk = MemoryDisk::blank(DISK_SIZE);
        disk.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        match probe(&disk).unwrap() {
            Probe::Refused(refusal) => refusal,
            other => panic!("{bytes:x?} at {at}: {other:?}"),
        }
    }

    #[test]
    fn somebody_elses_data_is_never_called_fresh() {
        for (at, bytes, expected) in [
            (512, &b"EFI PART"[..], Foreign::Gpt),
            (510, &[0x55, 0xaa], Foreign::Mbr),
            (1080, &[0x53, 0xef], Foreign::Ext),
            (0, b"XFSB", Foreign::Xfs),
            (0x1_0040, b"_BHRfS_M", Foreign::Btrfs),
            (512, b"LABELONE", Foreign::Lvm),
            (4086, b"SWAPSPACE2", Foreign::Swap),
            (4096, b"EFI PART", Foreign::Gpt),
            (0, &[0xfc, 0x4e, 0x2b, 0xa9], Foreign::Raid),
            (4096, &[0xfc, 0x4e, 0x2b, 0xa9], Foreign::Raid),
            (0, b"integrt\0", Foreign::Integrity),
            (0, b"BitLocker", Foreign::Unknown),
            ((1 << 20) - 1, &[1], Foreign::Unknown),
        ] {
            assert_eq!(refusal(at, bytes), DiskRefusal::Foreign(expected), "{bytes:x?} at {at}");
        }
    }

    #[test]
    fn a_backup_partition_table_at_the_end_is_not_overwritten() {
        assert_eq!(refusal(DISK_SIZE - 512, b"EFI PART"), DiskRefusal::EndNotBlank);
        assert_eq!(refusal(DISK_SIZE - (1 << 20), &[1]), DiskRefusal::EndNotBlank);
    }

    #[test]
    fn a_damaged_marker_is_not_a_licence_to_format() {
        assert_eq!(refusal(0, b"LATCHKEY-MARKER\0"), DiskRefusal::MarkerDamaged);
    }

    #[test]
    fn a_tiny_disk_is_refused_before_it_is_read() {
        let disk = MemoryDisk::blank(4095 * 1024);
        let Probe::Refused(refusal) = probe(&disk).unwrap() else { panic!("too small") };
        assert_eq!(refusal, DiskRefusal::TooSmall { size: 4095 * 1024 });
    }

    #[test]
    fn every_place_of_a_luks_magic_makes_the_disk_existing() {
        for (at, magic) in
            [(0, MAGIC_PRIMARY)].into_iter().chain([0x4000, 0x8000, 0x8_0000].map(|at| (at, MAGIC_SECONDARY)))
        {
            let mut disk = MemoryDisk::blank(DISK_SIZE);
            disk.bytes[at..at + 6].copy_from_slice(&magic);
            let Probe::Existing(header) = probe(&disk).unwrap() else { panic!("magic at {at}") };
            assert!(header.check_either_mode().is_err(), "and refused, since nothing else is there");
        }
    }
}
