//! Why there is no launch digest.

use latchkey_boot_formats::Guid;

use super::metadata::SectionKind;
use crate::MeasurementCode;

/// What is wrong with a firmware or with what is to be launched with it, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// More bytes than any firmware has.
    #[error("a firmware of {size} bytes, at most {limit} are read")]
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// Nothing, or not whole pages.
    #[error("a firmware of {size} bytes, which are not whole pages of 4096")]
    NotPages {
        /// Bytes of the file.
        size: usize,
    },
    /// No table of GUIDs before the reset vector.
    #[error("no OVMF: there is no table of GUIDs before the reset vector")]
    NoTable,
    /// A part is cut off or contradicts itself.
    #[error("the firmware's {0} is malformed")]
    Malformed(&'static str),
    /// The table has an entry twice.
    #[error("the firmware's table has the entry {0} twice")]
    EntryTwice(Guid),
    /// OVMF without an `OVMF_SEV_METADATA` entry.
    #[error("the firmware has no SEV metadata: it does not start as an SNP guest")]
    NoSevMetadata,
    /// OVMF without an `SEV_ES_RESET_BLOCK` entry.
    #[error("the firmware does not say where its other processors begin")]
    NoResetAddress,
    /// A version of the metadata that nothing specifies.
    #[error("SEV metadata of version {0}, expected 1")]
    MetadataVersion(u32),
    /// A section of a kind that is unknown here.
    #[error("the SEV metadata has a section of the unknown kind {0:#x}")]
    SectionUnknown(u32),
    /// A section that is not whole pages of the guest's memory, or more than the one page it may have.
    #[error(
        "the SEV metadata's section {kind} at {address:#x} has {size:#x} bytes, which are not the pages below the firmware \
         that it may have"
    )]
    SectionPlace {
        /// What for.
        kind: SectionKind,
        /// Where.
        address: u32,
        /// Bytes.
        size: u32,
    },
    /// A section over another one, or a second one of a kind that can be there once.
    #[error("the SEV metadata's section {kind} at {address:#x} is there already")]
    SectionConflict {
        /// What for.
        kind: SectionKind,
        /// Where.
        address: u32,
    },
    /// More pages than any firmware needs.
    #[error("the SEV metadata's sections have more than {limit} pages")]
    SectionsTooLarge {
        /// Pages that are measured.
        limit: u32,
    },
    /// A direct boot, but no page for its digests.
    #[error(
        "a direct boot with a firmware that has no measured page for the kernel's hashes: it would boot any kernel"
    )]
    NoKernelHashes,
    /// A page for the digests, but no entry that says where in it QEMU writes them.
    #[error("the firmware does not say where its table of kernel hashes is")]
    NoHashTable,
    /// The place for the digests is not in their page, or too small.
    #[error(
        "the firmware's table of kernel hashes, {size} bytes at {address:#x}, is not within the page that is measured for it"
    )]
    HashTable {
        /// Where.
        address: u32,
        /// Bytes.
        size: u32,
    },
    /// A NUL in a command line.
    #[error("the command line has a NUL")]
    CommandLineNul,
    /// No processor, or too many.
    #[error("{count} processors, expected 1 to {limit}")]
    VcpuCount {
        /// What was asked for.
        count: u32,
        /// As many as QEMU can give.
        limit: u32,
    },
    /// No number of processors, or too many of them.
    #[error("{count} numbers of processors, expected 1 to {limit}")]
    Sizes {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A number of processors that is there already.
    #[error("{0} processors are listed twice")]
    SizeTwice(u32),
    /// Guest features without SNP itself.
    #[error("guest features {0:#x} without bit 0, which is SNP itself")]
    FeaturesWithoutSnp(u64),
    /// Guest features that are no number.
    #[error("guest features {0:?}: expected a hexadecimal number")]
    FeaturesMalformed(String),
    /// A machine monitor that is unknown here.
    #[error("launches by {0:?} are not predicted: order and registers are QEMU's")]
    Vmm(String),
}

impl LaunchError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        MeasurementCode::LaunchUnpredictable
    }
}

impl LaunchError {
    /// What to do about it, where that is not plain from what is wrong.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NotPages { .. } | Self::NoTable => Some(
                "give the one file that QEMU gets with -bios: OVMF.fd, or OVMF_CODE.fd of the 2 MB build; not OVMF_VARS",
            ),
            Self::NoSevMetadata | Self::NoResetAddress => Some(
                "use an OVMF that was built for SEV-SNP: Debian's OVMF.fd is, the split 4 MB build of Debian 12 is not; \
                 for a direct boot, edk2's OvmfPkg/AmdSev/AmdSevX64.dsc",
            ),
            Self::NoKernelHashes | Self::NoHashTable => Some(
                "use edk2's OvmfPkg/AmdSev/AmdSevX64.dsc, which checks what it boots; or leave out the direct boot",
            ),
            Self::Vmm(_) => Some("only what QEMU launches with KVM can be predicted"),
            _ => None,
        }
    }
}
