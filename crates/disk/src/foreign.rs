//! Names what is on a foreign disk, so that the refusal tells its owner what would have been lost. Only for the message:
//! a disk that is not blank is refused whether or not it is recognised.

use core::fmt;
use latchkey_boot_formats::slice_at;

/// What a foreign disk seems to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A GUID partition table.
    Gpt,
    /// An MBR partition table or boot sector.
    Mbr,
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// An LVM physical volume.
    Lvm,
    /// Swap space.
    Swap,
    /// A Linux software RAID member.
    Raid,
    /// A `SquashFS` image.
    Squashfs,
    /// EROFS.
    Erofs,
    /// A dm-integrity volume.
    Integrity,
    /// A dm-verity hash tree.
    Verity,
    /// An ISO 9660 image.
    Iso9660,
    /// Bytes that are not zero.
    Unknown,
}

/// Offset and bytes of each signature; the more specific ones first (a GPT disk also has a protective MBR).
const SIGNATURES: &[(usize, &[u8], Foreign)] = &[
    (512, b"EFI PART", Foreign::Gpt),
    (4096, b"EFI PART", Foreign::Gpt),
    (1080, &[0x53, 0xef], Foreign::Ext),
    (0, b"XFSB", Foreign::Xfs),
    (0x1_0040, b"_BHRfS_M", Foreign::Btrfs),
    (512, b"LABELONE", Foreign::Lvm),
    (4086, b"SWAPSPACE2", Foreign::Swap),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], Foreign::Raid),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], Foreign::Raid),
    (0, b"hsqs", Foreign::Squashfs),
    (1024, &[0xe2, 0xe1, 0xf5, 0xe0], Foreign::Erofs),
    (0, b"integrt\0", Foreign::Integrity),
    (0, b"verity\0\0", Foreign::Verity),
    (0x8001, b"CD001", Foreign::Iso9660),
    (510, &[0x55, 0xaa], Foreign::Mbr),
];

pub(crate) fn recognise(region: &[u8]) -> Foreign {
    SIGNATURES
        .iter()
        .find(|(at, signature, _)| slice_at(region, *at, signature.len()) == Some(signature))
        .map_or(Foreign::Unknown, |&(_, _, foreign)| foreign)
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "a GUID partition table",
            Self::Mbr => "an MBR partition table or boot sector",
            Self::Ext => "an ext2, ext3 or ext4 file system",
            Self::Xfs => "an XFS file system",
            Self::Btrfs => "a Btrfs file system",
            Self::Lvm => "an LVM physical volume",
            Self::Swap => "swap space",
            Self::Raid => "a Linux RAID member",
            Self::Squashfs => "a SquashFS image",
            Self::Erofs => "an EROFS image",
            Self::Integrity => "a dm-integrity volume",
            Self::Verity => "a dm-verity hash tree",
            Self::Iso9660 => "an ISO 9660 image",
            Self::Unknown => "data that nobody recognises",
        })
    }
}
