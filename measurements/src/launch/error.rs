//! Why there is no launch digest.

use std::fmt;

use latchkey_boot_formats::Guid;

use super::metadata::SectionKind;

/// What is wrong with a firmware or with what is to be launched with it, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchError {
    /// More bytes than any firmware has.
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// Bytes that are read.
        limit: usize,
    },
    /// Nothing, or not whole pages.
    NotPages {
        /// Bytes of the file.
        size: usize,
    },
    /// No table of GUIDs before the reset vector.
    NoTable,
    /// A part is cut off or contradicts itself.
    Malformed(&'static str),
    /// The table has an entry twice.
    EntryTwice(Guid),
    /// OVMF without an `OVMF_SEV_METADATA` entry.
    NoSevMetadata,
    /// OVMF without an `SEV_ES_RESET_BLOCK` entry.
    NoResetAddress,
    /// A version of the metadata that nothing specifies.
    MetadataVersion(u32),
    /// A section of a kind that is unknown here.
    SectionUnknown(u32),
    /// A section that is not whole pages of the guest's memory, or more than the one page it may have.
    SectionPlace {
        /// What for.
        kind: SectionKind,
        /// Where.
        address: u32,
        /// Bytes.
        size: u32,
    },
    /// A section over another one, or a second one of a kind that can be there once.
    SectionConflict {
        /// What for.
        kind: SectionKind,
        /// Where.
        address: u32,
    },
    /// More pages than any firmware needs.
    SectionsTooLarge {
        /// Pages that are measured.
        limit: u32,
    },
    /// A direct boot, but no page for its digests.
    NoKernelHashes,
    /// A page for the digests, but no entry that says where in it QEMU writes them.
    NoHashTable,
    /// The place for the digests is not in their page, or too small.
    HashTable {
        /// Where.
        address: u32,
        /// Bytes.
        size: u32,
    },
    /// A NUL in a command line.
    CommandLineNul,
    /// No processor, or too many.
    VcpuCount {
        /// What was asked for.
        count: u32,
        /// As many as QEMU can give.
        limit: u32,
    },
    /// No number of processors, or too many of them.
    Sizes {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A number of processors that is there already.
    SizeTwice(u32),
    /// Guest features without SNP itself.
    FeaturesWithoutSnp(u64),
    /// Guest features that are no number.
    FeaturesMalformed(String),
    /// A machine monitor that is unknown here.
    Vmm(String),
}

impl LaunchError {
    /// What to do about it, where that is not plain from what is wrong.
    pub fn fix(&self) -> Option<&'static str> {
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

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size, limit } => write!(f, "a firmware of {size} bytes, at most {limit} are read"),
            Self::NotPages { size } => write!(f, "a firmware of {size} bytes, which are not whole pages of 4096"),
            Self::NoTable => f.write_str("no OVMF: there is no table of GUIDs before the reset vector"),
            Self::Malformed(what) => write!(f, "the firmware's {what} is malformed"),
            Self::EntryTwice(name) => write!(f, "the firmware's table has the entry {name} twice"),
            Self::NoSevMetadata => f.write_str("the firmware has no SEV metadata: it does not start as an SNP guest"),
            Self::NoResetAddress => f.write_str("the firmware does not say where its other processors begin"),
            Self::MetadataVersion(version) => write!(f, "SEV metadata of version {version}, expected 1"),
            Self::SectionUnknown(code) => write!(f, "the SEV metadata has a section of the unknown kind {code:#x}"),
            Self::SectionPlace { kind, address, size } => {
                write!(f, "the SEV metadata's section {kind} at {address:#x} has {size:#x} bytes, ")?;
                f.write_str("which are not the pages below the firmware that it may have")
            }
            Self::SectionConflict { kind, address } => {
                write!(f, "the SEV metadata's section {kind} at {address:#x} is there already")
            }
            Self::SectionsTooLarge { limit } => write!(f, "the SEV metadata's sections have more than {limit} pages"),
            Self::NoKernelHashes => {
                f.write_str("a direct boot with a firmware that has no measured page for the kernel's hashes: ")?;
                f.write_str("it would boot any kernel")
            }
            Self::NoHashTable => f.write_str("the firmware does not say where its table of kernel hashes is"),
            Self::HashTable { address, size } => {
                write!(f, "the firmware's table of kernel hashes, {size} bytes at {address:#x}, ")?;
                f.write_str("is not within the page that is measured for it")
            }
            Self::CommandLineNul => f.write_str("the command line has a NUL"),
            Self::VcpuCount { count, limit } => write!(f, "{count} processors, expected 1 to {limit}"),
            Self::Sizes { count, limit } => write!(f, "{count} numbers of processors, expected 1 to {limit}"),
            Self::SizeTwice(count) => write!(f, "{count} processors are listed twice"),
            Self::FeaturesWithoutSnp(bits) => write!(f, "guest features {bits:#x} without bit 0, which is SNP itself"),
            Self::FeaturesMalformed(text) => write!(f, "guest features {text:?}: expected a hexadecimal number"),
            Self::Vmm(name) => write!(f, "launches by {name:?} are not predicted: order and registers are QEMU's"),
        }
    }
}

impl std::error::Error for LaunchError {}
