//! The SEV metadata of a firmware: memory that must be there, and measured, before its first instruction.

use std::fmt;

use latchkey_boot_formats::u32_at;

use super::chain::PAGE;
use super::error::LaunchError;

/// One section of the metadata (edk2, `OvmfPkg/ResetVector/X64/OvmfSevMetadata.asm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Where in the guest's memory.
    pub address: u32,
    /// Bytes: whole pages.
    pub size: u32,
    /// What for.
    pub kind: SectionKind,
}

/// What a section is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// Memory that the firmware uses before it can accept any itself.
    Memory,
    /// The secure processor's secrets, among them the keys for talking to it.
    Secrets,
    /// The answers to CPUID.
    Cpuid,
    /// The calling area of a secure VM service module.
    SvsmCallingArea,
    /// Digests of kernel, initrd and command line.
    KernelHashes,
}

impl SectionKind {
    fn of(code: u32) -> Option<Self> {
        match code {
            0x01 => Some(Self::Memory),
            0x02 => Some(Self::Secrets),
            0x03 => Some(Self::Cpuid),
            0x04 => Some(Self::SvsmCallingArea),
            0x10 => Some(Self::KernelHashes),
            _ => None,
        }
    }

    /// Sections that can only be one page, once.
    fn is_single(self) -> bool {
        matches!(self, Self::Secrets | Self::Cpuid | Self::KernelHashes)
    }
}

impl fmt::Display for SectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "SNP_SEC_MEM",
            Self::Secrets => "SNP_SECRETS",
            Self::Cpuid => "CPUID",
            Self::SvsmCallingArea => "SVSM_CAA",
            Self::KernelHashes => "SNP_KERNEL_HASHES",
        })
    }
}

impl Section {
    /// The address of each page.
    pub(super) fn pages(&self) -> impl Iterator<Item = u64> {
        (u64::from(self.address)..self.end()).step_by(PAGE)
    }

    fn end(&self) -> u64 {
        u64::from(self.address) + u64::from(self.size)
    }

    fn overlaps(&self, other: &Self) -> bool {
        u64::from(self.address) < other.end() && u64::from(other.address) < self.end()
    }
}

/// The sections of `file`; `entry` is how far before its end they are. Below `firmware` the guest has its memory.
pub(super) fn sections(file: &[u8], entry: &[u8], firmware: u64) -> Result<Vec<Section>, LaunchError> {
    let from_end = u32_at(entry, 0).filter(|_| entry.len() == 4).and_then(|offset| usize::try_from(offset).ok());
    let start = from_end.and_then(|offset| file.len().checked_sub(offset));
    let metadata = start.and_then(|start| file.get(start..)).ok_or(MALFORMED)?;
    let descriptors = descriptors(metadata)?;
    let mut sections: Vec<Section> = Vec::with_capacity(descriptors.len() / DESCRIPTOR);
    let mut pages = 0;
    for descriptor in descriptors.chunks_exact(DESCRIPTOR) {
        let section = section(descriptor, firmware)?;
        if sections.iter().any(|other| section.conflicts(other)) {
            return Err(LaunchError::SectionConflict { kind: section.kind, address: section.address });
        }
        pages += section.size / PAGE_SIZE;
        if pages > MAX_PAGES {
            return Err(LaunchError::SectionsTooLarge { limit: MAX_PAGES });
        }
        sections.push(section);
    }
    Ok(sections)
}

impl Section {
    fn conflicts(&self, other: &Self) -> bool {
        self.overlaps(other) || self.kind.is_single() && self.kind == other.kind
    }
}

/// The header: "ASEV", length of everything, version, number of sections.
fn descriptors(metadata: &[u8]) -> Result<&[u8], LaunchError> {
    let field = |offset| u32_at(metadata, offset).ok_or(MALFORMED);
    if !metadata.starts_with(b"ASEV") {
        return Err(MALFORMED);
    }
    let (length, version, count) = (field(4)?, field(8)?, field(12)?);
    if version != VERSION {
        return Err(LaunchError::MetadataVersion(version));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= MAX_SECTIONS).ok_or(MALFORMED)?;
    let end = HEADER + count * DESCRIPTOR;
    if usize::try_from(length) != Ok(end) {
        return Err(MALFORMED);
    }
    metadata.get(HEADER..end).ok_or(MALFORMED)
}

/// Base, size, kind.
fn section(descriptor: &[u8], firmware: u64) -> Result<Section, LaunchError> {
    let field = |offset| u32_at(descriptor, offset).ok_or(MALFORMED);
    let (address, size, code) = (field(0)?, field(4)?, field(8)?);
    let kind = SectionKind::of(code).ok_or(LaunchError::SectionUnknown(code))?;
    let section = Section { address, size, kind };
    let pages = address.is_multiple_of(PAGE_SIZE) && size.is_multiple_of(PAGE_SIZE) && size > 0;
    let single = !kind.is_single() || size == PAGE_SIZE;
    if !pages || !single || section.end() > firmware {
        return Err(LaunchError::SectionPlace { kind, address, size });
    }
    Ok(section)
}

const MALFORMED: LaunchError = LaunchError::Malformed("SEV metadata");
const HEADER: usize = 16;
const DESCRIPTOR: usize = 12;
/// The only one there is.
const VERSION: u32 = 1;
/// OVMF has five to seven.
const MAX_SECTIONS: usize = 64;
/// 64 MiB. OVMF has 128 KiB: its own stack, page tables and mailboxes.
const MAX_PAGES: u32 = 0x4000;
const PAGE_SIZE: u32 = 4096;
