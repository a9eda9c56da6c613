//! A bounded reader of PE32+ files (Microsoft "PE Format", sections 2 to 4; all integers little-endian).

use std::ops::{Deref, Range};

/// "The Windows loader limits the number of sections to 96."
pub const MAX_SECTIONS: usize = 96;
/// Size of one entry of the section table.
pub const SECTION_HEADER: usize = 40;

/// At 0x3c of the MS-DOS stub is the offset of the PE signature.
const SIGNATURE_OFFSET: usize = 0x3c;
/// "PE\0\0", then the COFF header of 20 bytes.
const COFF_HEADER: usize = 24;
/// Magic number of PE32+ (64-bit) in the optional header.
const PE32_PLUS: u16 = 0x20b;
/// Fixed part of a PE32+ optional header, before the data directories.
const OPTIONAL_HEADER: usize = 112;
/// Index of the attribute certificate table (the signature) among the data directories.
const CERTIFICATE_TABLE: usize = 4;

/// The processor a PE file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// `IMAGE_FILE_MACHINE_AMD64`
    X86_64,
    /// `IMAGE_FILE_MACHINE_ARM64`
    Aarch64,
}

/// One entry of the section table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// At most 8 bytes, without the padding.
    pub name: String,
    /// Bytes in memory.
    pub virtual_size: u32,
    /// Where in memory, from the start of the image.
    pub virtual_address: u32,
    /// Bytes in the file.
    pub raw_size: u32,
    /// Where in the file.
    pub raw_offset: u32,
}

/// The headers of a PE file, found to be consistent with its size. Offsets of fields are kept for who edits it.
#[derive(Debug)]
pub struct Headers {
    certificates: Option<Range<u64>>,
    coff: usize,
    optional: usize,
    section_table: usize,
    /// The processor.
    pub machine: Machine,
    /// Granularity of addresses in memory.
    pub section_alignment: u32,
    /// Granularity of offsets in the file.
    pub file_alignment: u32,
    /// Bytes of all headers, including the room behind the section table.
    pub headers_size: u32,
    /// Whether the optional header has an entry for the attribute certificate table, empty or not.
    has_certificate_entry: bool,
    /// The section table.
    pub sections: Vec<Section>,
}

/// A PE file in memory: its bytes and, by [`Deref`], its headers.
#[derive(Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    headers: Headers,
}

impl Deref for Image<'_> {
    type Target = Headers;

    fn deref(&self) -> &Headers {
        &self.headers
    }
}

/// Why bytes are not taken for a PE file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeError {
    /// The file ends before what its headers promise.
    #[error("the PE file is cut short")]
    Truncated,
    /// No MS-DOS or PE magic, or not PE32+.
    #[error("not a 64-bit PE file")]
    NotPe,
    /// For a processor that Latchkey does not run on.
    #[error("a PE file for the unknown machine type {0:#06x}")]
    UnknownMachine(u16),
    /// More sections than a loader accepts.
    #[error("a PE file with more than {MAX_SECTIONS} sections")]
    TooManySections,
    /// An alignment is zero, no power of two or absurdly large.
    #[error("a PE file with an impossible alignment")]
    BadAlignment,
    /// A section lies outside the file or wraps around in memory.
    #[error("a PE file with a section that lies outside of it")]
    BadSection,
    /// The attribute certificate table lies outside the file.
    #[error("a PE file with a signature that lies outside of it")]
    BadCertificates,
}

impl Headers {
    /// Bytes at the beginning of a file that always hold the headers: a file that has them elsewhere is refused.
    pub const MAX_SIZE: usize = 64 * 1024;

    /// Reads the headers of a file of `size` bytes that begins with `bytes`: all of it, or [`Self::MAX_SIZE`].
    ///
    /// # Errors
    /// [`PeError`]. The table of certificates is looked at by [`Self::certificates`].
    pub fn parse(bytes: &[u8], size: u64) -> Result<Self, PeError> {
        if !bytes.starts_with(b"MZ") {
            return Err(PeError::NotPe);
        }
        let coff = usize::try_from(u32_at(bytes, SIGNATURE_OFFSET)?).map_err(|_| PeError::Truncated)?;
        if array_at(bytes, coff)? != *b"PE\0\0" {
            return Err(PeError::NotPe);
        }
        let machine = machine(u16_at(bytes, at(coff, 4)?)?)?;
        let optional_size = usize::from(u16_at(bytes, at(coff, 20)?)?);
        let optional = at(coff, COFF_HEADER)?;
        if optional_size < OPTIONAL_HEADER || u16_at(bytes, optional)? != PE32_PLUS {
            return Err(PeError::NotPe);
        }
        let count = usize::from(u16_at(bytes, at(coff, 6)?)?);
        if count > MAX_SECTIONS {
            return Err(PeError::TooManySections);
        }
        let section_table = at(optional, optional_size)?;
        let headers = Self {
            certificates: certificates(bytes, optional, optional_size)?,
            coff,
            optional,
            section_table,
            machine,
            section_alignment: alignment(u32_at(bytes, at(optional, 32)?)?)?,
            file_alignment: alignment(u32_at(bytes, at(optional, 36)?)?)?,
            headers_size: u32_at(bytes, at(optional, 60)?)?,
            has_certificate_entry: has_certificate_entry(bytes, optional, optional_size)?,
            sections: sections(bytes, section_table, count, size)?,
        };
        // What is appended to a file that ends within its headers would lie where more headers belong.
        if u64::from(headers.headers_size) > size {
            return Err(PeError::Truncated);
        }
        Ok(headers)
    }

    /// Offset of the number of sections (`u16`).
    pub fn section_count_field(&self) -> usize {
        self.coff + 6
    }

    /// Offset of `SizeOfInitializedData` (`u32`).
    pub fn initialized_size_field(&self) -> usize {
        self.optional + 8
    }

    /// Offset of `SizeOfImage` (`u32`).
    pub fn image_size_field(&self) -> usize {
        self.optional + 56
    }

    /// Offset of `CheckSum` (`u32`).
    pub fn checksum_field(&self) -> usize {
        self.optional + 64
    }

    /// Offset of the entry that says where the attribute certificate table is (`u32` offset, `u32` size), if there is one.
    pub fn certificate_entry_field(&self) -> Option<usize> {
        self.has_certificate_entry.then_some(self.optional + OPTIONAL_HEADER + CERTIFICATE_TABLE * 8)
    }

    /// Whether there is an attribute certificate table.
    pub fn is_signed(&self) -> bool {
        self.certificates.is_some()
    }

    /// Where in a file of `size` bytes the attribute certificate table is: `None` without one.
    ///
    /// # Errors
    /// [`PeError::BadCertificates`]: it is not wholly in the file.
    pub fn certificates(&self, size: u64) -> Result<Option<Range<u64>>, PeError> {
        match &self.certificates {
            Some(range) if range.end > size => Err(PeError::BadCertificates),
            certificates => Ok(certificates.clone()),
        }
    }

    /// Offset of the section table.
    pub fn section_table(&self) -> usize {
        self.section_table
    }
}

impl<'a> Image<'a> {
    /// Reads the headers of `bytes`, wherever they are.
    ///
    /// # Errors
    /// As [`Headers::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PeError> {
        Ok(Self { bytes, headers: Headers::parse(bytes, bytes.len() as u64)? })
    }

    /// The content of the section called `name` as the loader has it in memory, if it is wholly in the file.
    pub fn section(&self, name: &str) -> Option<&'a [u8]> {
        let section = self.sections.iter().find(|section| section.name == name)?;
        let start = usize::try_from(section.raw_offset).ok()?;
        let length = usize::try_from(section.virtual_size.min(section.raw_size)).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// The whole file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

fn machine(value: u16) -> Result<Machine, PeError> {
    match value {
        0x8664 => Ok(Machine::X86_64),
        0xaa64 => Ok(Machine::Aarch64),
        other => Err(PeError::UnknownMachine(other)),
    }
}

fn alignment(value: u32) -> Result<u32, PeError> {
    // "The default is 512": kernels use 32 and less, nothing uses more than 64 KiB.
    if value.is_power_of_two() && value <= 0x1_0000 { Ok(value) } else { Err(PeError::BadAlignment) }
}

/// End of the entry of the attribute certificate table, from the optional header on.
const CERTIFICATE_ENTRY_END: usize = OPTIONAL_HEADER + (CERTIFICATE_TABLE + 1) * 8;

fn has_certificate_entry(bytes: &[u8], optional: usize, optional_size: usize) -> Result<bool, PeError> {
    let directories = u32_at(bytes, at(optional, OPTIONAL_HEADER - 4)?)?;
    let enough = usize::try_from(directories).is_ok_and(|count| count > CERTIFICATE_TABLE);
    Ok(enough && optional_size >= CERTIFICATE_ENTRY_END)
}

/// Unlike the others, this entry has an offset in the file and no address.
fn certificates(bytes: &[u8], optional: usize, optional_size: usize) -> Result<Option<Range<u64>>, PeError> {
    if !has_certificate_entry(bytes, optional, optional_size)? {
        return Ok(None);
    }
    let offset = u64::from(u32_at(bytes, at(optional, CERTIFICATE_ENTRY_END - 8)?)?);
    let size = u64::from(u32_at(bytes, at(optional, CERTIFICATE_ENTRY_END - 4)?)?);
    Ok((size != 0).then_some(offset..offset + size))
}

fn sections(bytes: &[u8], table: usize, count: usize, size: u64) -> Result<Vec<Section>, PeError> {
    let end = at(table, count * SECTION_HEADER)?;
    let headers = bytes.get(table..end).ok_or(PeError::Truncated)?;
    headers.chunks_exact(SECTION_HEADER).map(|header| section(header, size)).collect()
}

fn section(header: &[u8], size: u64) -> Result<Section, PeError> {
    let name: [u8; 8] = array_at(header, 0)?;
    let used = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let section = Section {
        name: String::from_utf8_lossy(name.get(..used).unwrap_or_default()).into_owned(),
        virtual_size: u32_at(header, 8)?,
        virtual_address: u32_at(header, 12)?,
        raw_size: u32_at(header, 16)?,
        raw_offset: u32_at(header, 20)?,
    };
    let in_file = u64::from(section.raw_offset) + u64::from(section.raw_size);
    let in_memory = section.virtual_address.checked_add(section.virtual_size);
    if in_memory.is_none() || (section.raw_size > 0 && in_file > size) {
        return Err(PeError::BadSection);
    }
    Ok(section)
}

fn at(base: usize, offset: usize) -> Result<usize, PeError> {
    base.checked_add(offset).ok_or(PeError::Truncated)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], PeError> {
    latchkey_boot_formats::array_at(bytes, offset).ok_or(PeError::Truncated)
}

fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, PeError> {
    array_at(bytes, offset).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, PeError> {
    array_at(bytes, offset).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe_sample::stub;

    #[test]
    fn a_stub_is_read() {
        let bytes = stub(4);
        let image = Image::parse(&bytes).unwrap();
        assert_eq!((image.machine, image.is_signed()), (Machine::X86_64, false));
        assert_eq!((image.section_alignment, image.file_alignment), (0x1000, 0x200));
        assert_eq!(image.section(".text").map(<[u8]>::len), Some(0x123));
        assert_eq!(image.section(".linux"), None);
    }

    #[test]
    fn a_file_cut_anywhere_is_refused_without_panic() {
        let whole = stub(4);
        for length in 0..whole.len() {
            assert!(Image::parse(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn every_byte_of_the_headers_may_lie_without_panic() {
        let whole = stub(4);
        for position in 0..whole.len() - 0x200 {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] = value;
                if let Ok(image) = Image::parse(&bytes) {
                    assert!(image.sections.len() <= MAX_SECTIONS);
                    let _ = image.section(".text");
                }
            }
        }
    }

    #[test]
    fn a_file_that_ends_within_its_headers_is_refused() {
        let mut bytes = stub(4);
        let size = u32::try_from(bytes.len()).unwrap();
        let field = 0x40 + COFF_HEADER + 60;
        bytes[field..field + 4].copy_from_slice(&size.to_le_bytes());
        assert!(Image::parse(&bytes).is_ok());
        bytes[field..field + 4].copy_from_slice(&(size + 1).to_le_bytes());
        assert_eq!(Image::parse(&bytes).unwrap_err(), PeError::Truncated);
    }

    #[test]
    fn each_lie_has_its_own_reason() {
        let refused = |offset: usize, value: &[u8]| {
            let mut bytes = stub(4);
            bytes[offset..offset + value.len()].copy_from_slice(value);
            Image::parse(&bytes).err()
        };
        assert_eq!(refused(0, b"ZM"), Some(PeError::NotPe));
        assert_eq!(refused(0x40, b"LE"), Some(PeError::NotPe));
        assert_eq!(refused(0x3c, &[0xff; 4]), Some(PeError::Truncated));
        assert_eq!(refused(0x44, &[0x4c, 0x01]), Some(PeError::UnknownMachine(0x14c)));
        assert_eq!(refused(0x46, &[0xff; 2]), Some(PeError::TooManySections));
        assert_eq!(refused(0x58, &0x10b_u16.to_le_bytes()), Some(PeError::NotPe));
        assert_eq!(refused(0x58 + 32, &[0; 4]), Some(PeError::BadAlignment));
        assert_eq!(refused(0x58 + 36, &[3, 0, 0, 0]), Some(PeError::BadAlignment));
        let table = 0x58 + 240;
        assert_eq!(refused(table + 20, &[0xff; 4]), Some(PeError::BadSection));
        assert_eq!(refused(table + 12, &[0xff; 4]), Some(PeError::BadSection));
    }
}
