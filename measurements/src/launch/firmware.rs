//! A firmware file: what QEMU puts below 4 GiB, and the table at its end that says what else belongs to the launch.

use latchkey_boot_formats::{Guid, u32_at};

use super::chain::{self, Chain, PAGE};
use super::error::LaunchError;
use super::metadata::{self, Section, SectionKind};

/// An OVMF with SEV-SNP metadata, already measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firmware {
    measured: Chain,
    reset_address: u32,
    hash_table: Option<(u32, u32)>,
    sections: Vec<Section>,
}

impl Firmware {
    /// Largest file that is read. What QEMU maps for firmware ends at 4 GiB, and 18 MiB below are the processors'
    /// interrupt controllers.
    pub const MAX_SIZE: usize = 16 * 1024 * 1024;

    /// Reads `file` as `-bios` gets it: the whole firmware in one file, as `OVMF.fd` or `OVMF_CODE.fd`.
    ///
    /// # Errors
    /// [`LaunchError`]: not a firmware with an OVMF table, without SEV metadata or SEV-ES reset address, or with metadata
    /// that cannot be launched.
    pub fn parse(file: &[u8]) -> Result<Self, LaunchError> {
        if file.len() > Self::MAX_SIZE {
            return Err(LaunchError::TooLarge { size: file.len(), limit: Self::MAX_SIZE });
        }
        if file.is_empty() || !file.len().is_multiple_of(PAGE) {
            return Err(LaunchError::NotPages { size: file.len() });
        }
        let entries = entries(file)?;
        let metadata = entry(&entries, SEV_METADATA).ok_or(LaunchError::NoSevMetadata)?;
        let reset = entry(&entries, SEV_ES_RESET).ok_or(LaunchError::NoResetAddress)?;
        let base = base(file).ok_or(LaunchError::TooLarge { size: file.len(), limit: Self::MAX_SIZE })?;
        let sections = metadata::sections(file, metadata, base)?;
        Ok(Self {
            measured: measure(file, base),
            reset_address: u32_at(reset, 0).filter(|_| reset.len() == 4).ok_or(malformed("SEV-ES reset block"))?,
            hash_table: entry(&entries, SEV_HASH_TABLE).map(hash_table).transpose()?.flatten(),
            sections,
        })
    }

    /// Whether it has a measured page for the digests of a direct boot.
    pub fn takes_kernel_hashes(&self) -> bool {
        self.sections.iter().any(|section| section.kind == SectionKind::KernelHashes)
    }

    /// The same of a file that is not measured yet: whether a direct boot with it can be predicted is known at once.
    pub fn file_takes_kernel_hashes(file: &[u8]) -> bool {
        let sections = || metadata::sections(file, entry(&entries(file).ok()?, SEV_METADATA)?, base(file)?).ok();
        sections().is_some_and(|sections| sections.iter().any(|section| section.kind == SectionKind::KernelHashes))
    }

    /// What its metadata asks for, in the order of the launch.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The digest after the firmware's own pages.
    pub(super) fn measured(&self) -> &Chain {
        &self.measured
    }

    /// Where all processors but the first begin.
    pub(super) fn reset_address(&self) -> u32 {
        self.reset_address
    }

    /// Address and size of the table of kernel hashes.
    pub(super) fn hash_table(&self) -> Option<(u32, u32)> {
        self.hash_table
    }
}

/// Where the file begins, which ends at 4 GiB.
fn base(file: &[u8]) -> Option<u64> {
    FOUR_GIB.checked_sub(file.len() as u64)
}

/// All pages of the file.
fn measure(file: &[u8], base: u64) -> Chain {
    let (pages, _) = file.as_chunks::<PAGE>();
    let (mut chain, mut earlier) = (Chain::new(), None);
    for (page, address) in pages.iter().zip((base..).step_by(PAGE)) {
        // Much of a firmware is the same page of filler over and over.
        let same = earlier.filter(|(earlier, _)| *earlier == page).map(|(_, digest)| digest);
        let digest = same.unwrap_or_else(|| chain::contents(page));
        chain.normal_of(address, &digest);
        earlier = Some((page, digest));
    }
    chain
}

/// The entries of OVMF's table of GUIDs (edk2, `OvmfPkg/ResetVector/Ia16/ResetVectorVtf0.asm`): it ends 32 bytes before
/// the file does, and is read backwards. An entry is data, the length of all of it, GUID; the last is the table itself.
fn entries(file: &[u8]) -> Result<Vec<(Guid, &[u8])>, LaunchError> {
    let (before, _) = file.split_last_chunk::<BELOW_TABLE>().ok_or(LaunchError::NoTable)?;
    let (table, footer) = last_entry(before).ok_or(LaunchError::NoTable)?;
    if footer != TABLE_FOOTER {
        return Err(LaunchError::NoTable);
    }
    let mut rest = table;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (data, name) = last_entry(rest).ok_or(malformed("table of GUIDs"))?;
        if entries.iter().any(|(other, _)| *other == name) {
            return Err(LaunchError::EntryTwice(name));
        }
        if entries.len() == MAX_ENTRIES {
            return Err(malformed("table of GUIDs"));
        }
        entries.push((name, data));
        rest = rest.get(..rest.len() - data.len() - ENTRY_TAIL).unwrap_or_default();
    }
    Ok(entries)
}

/// The data and the GUID of the entry at the end of `bytes`.
fn last_entry(bytes: &[u8]) -> Option<(&[u8], Guid)> {
    let (rest, name) = bytes.split_last_chunk::<16>()?;
    let (rest, length) = rest.split_last_chunk::<2>()?;
    let data = usize::from(u16::from_le_bytes(*length)).checked_sub(ENTRY_TAIL)?;
    Some((rest.get(rest.len().checked_sub(data)?..)?, Guid::from_disk_order(*name)))
}

fn entry<'a>(entries: &[(Guid, &'a [u8])], name: Guid) -> Option<&'a [u8]> {
    entries.iter().find(|(other, _)| *other == name).map(|(_, data)| *data)
}

/// Base and size; builds without a table have the entry with zeros.
fn hash_table(data: &[u8]) -> Result<Option<(u32, u32)>, LaunchError> {
    let fields = u32_at(data, 0).zip(u32_at(data, 4)).filter(|_| data.len() == 8);
    let (base, size) = fields.ok_or(malformed("SEV hash table's entry"))?;
    Ok((size != 0).then_some((base, size)))
}

fn malformed(what: &'static str) -> LaunchError {
    LaunchError::Malformed(what)
}

const FOUR_GIB: u64 = 1 << 32;
/// The reset vector's code, which must be at the file's end.
const BELOW_TABLE: usize = 32;
/// Length and GUID of an entry.
const ENTRY_TAIL: usize = 18;
/// OVMF has six.
const MAX_ENTRIES: usize = 64;

const TABLE_FOOTER: Guid = Guid::from_u128(0x96b5_82de_1fb2_45f7_baea_a366_c55a_082d);
const SEV_METADATA: Guid = Guid::from_u128(0xdc88_6566_984a_4798_a75e_5585_a7bf_67cc);
const SEV_ES_RESET: Guid = Guid::from_u128(0x00f7_71de_1a7e_4fcb_890e_68c7_7e2f_b44e);
const SEV_HASH_TABLE: Guid = Guid::from_u128(0x7255_371f_3a3b_4b04_927b_1da6_efa8_d454);
