//! Puts a unified kernel image together (UAPI specification "Unified Kernel Image").
//!
//! The parts become sections behind those of systemd-stub, which finds them by name,
//! measures them into PCR 11 and starts the kernel. Nothing is taken from the clock, the host or
//! the file system, so equal parts give equal bytes. A signature may be added afterwards: it
//! does not change the Authenticode hash that the firmware measures.

use latchkey_measurements::pe::{Image, MAX_SECTIONS, PeError, SECTION_HEADER};

/// `COMMAND_LINE_SIZE` of the kernel on x86 is 2048 with the NUL: what is longer is cut silently.
const MAX_COMMAND_LINE: usize = 2047;
/// The least granularity in memory, so that no section shares a page.
const PAGE: u32 = 0x1000;
/// `IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_READ`
const READ_ONLY_DATA: u32 = 0x4000_0040;

/// What goes into a unified kernel image. All of it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Uki<'a> {
    /// The boot stub, systemd-stub (`linuxx64.efi.stub`).
    pub stub: &'a [u8],
    /// The kernel (`vmlinuz` with EFI stub).
    pub linux: &'a [u8],
    /// The initramfs as the kernel gets it.
    pub initrd: &'a [u8],
    /// The kernel command line, without NUL.
    pub command_line: &'a str,
    /// `os-release` of the OS inside.
    pub os_release: &'a str,
    /// The kernel's release as `uname -r` says it; systemd 253 and newer measure it, older ignore it.
    pub uname: Option<&'a str>,
}

/// Why no unified kernel image was built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UkiError {
    /// The stub is no usable PE file.
    #[error("boot stub: {0}")]
    Stub(PeError),
    /// The kernel is no usable PE file, so it has no EFI stub.
    #[error("kernel: {0}")]
    Linux(PeError),
    /// Stub and kernel are for different processors.
    #[error("boot stub and kernel are for different processors")]
    MachineMismatch,
    /// The stub is signed; appending to it would break the signature.
    #[error("the boot stub is signed")]
    SignedStub,
    /// The stub already has a section of this name.
    #[error("the boot stub already has a section {0}")]
    DuplicateSection(&'static str),
    /// The header of the stub has no room for so many sections.
    #[error("the boot stub has room for {room} more sections, {needed} are needed")]
    NoRoom {
        /// Sections to append.
        needed: usize,
        /// Sections there is room for.
        room: usize,
    },
    /// The stub's sections are not in order of their addresses, or overlap.
    #[error("the boot stub's sections are out of order or overlap")]
    UnorderedStub,
    /// The command line is too long for the kernel.
    #[error("the command line has {0} bytes, the kernel reads {MAX_COMMAND_LINE}")]
    LongCommandLine(usize),
    /// Text that must be one line holds a NUL or line break, or a part is empty.
    #[error("section {0}: empty, or with a NUL or line break where none belongs")]
    BadText(&'static str),
    /// The image would be 4 GiB or larger.
    #[error("the image would be 4 GiB or larger")]
    TooLarge,
}

impl UkiError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Linux(_) => "build the kernel with CONFIG_EFI_STUB=y",
            Self::SignedStub => "use the unsigned boot stub, and sign the whole image",
            Self::DuplicateSection(_) => "use a boot stub, not a finished image",
            Self::NoRoom { .. } => "use another boot stub",
            _ => return None,
        })
    }
}

impl Uki<'_> {
    /// The finished, unsigned image.
    pub fn build(&self) -> Result<Vec<u8>, UkiError> {
        self.check_texts()?;
        let stub = Image::parse(self.stub).map_err(UkiError::Stub)?;
        let linux = Image::parse(self.linux).map_err(UkiError::Linux)?;
        if stub.machine != linux.machine {
            return Err(UkiError::MachineMismatch);
        }
        let parts = self.parts();
        check_stub(&stub, &parts)?;
        append(self.stub, &stub, &parts)
    }

    /// The kernel comes last: it may use the memory behind it while it unpacks itself.
    fn parts(&self) -> Vec<(&'static str, &[u8])> {
        let mut parts = vec![(".osrel", self.os_release.as_bytes()), (".cmdline", self.command_line.as_bytes())];
        parts.extend(self.uname.map(|uname| (".uname", uname.as_bytes())));
        parts.extend([(".initrd", self.initrd), (".linux", self.linux)]);
        parts
    }

    fn check_texts(&self) -> Result<(), UkiError> {
        let one_line = |text: &str| !text.is_empty() && !text.contains(['\0', '\n', '\r']);
        if self.command_line.len() > MAX_COMMAND_LINE {
            return Err(UkiError::LongCommandLine(self.command_line.len()));
        }
        if !one_line(self.command_line) {
            return Err(UkiError::BadText(".cmdline"));
        }
        if !self.uname.is_none_or(one_line) {
            return Err(UkiError::BadText(".uname"));
        }
        if self.os_release.is_empty() || self.os_release.contains('\0') {
            return Err(UkiError::BadText(".osrel"));
        }
        if self.initrd.is_empty() {
            return Err(UkiError::BadText(".initrd"));
        }
        Ok(())
    }
}

fn check_stub(stub: &Image<'_>, parts: &[(&'static str, &[u8])]) -> Result<(), UkiError> {
    if stub.is_signed() {
        return Err(UkiError::SignedStub);
    }
    if let Some((name, _)) = parts.iter().find(|(name, _)| stub.sections.iter().any(|section| section.name == *name)) {
        return Err(UkiError::DuplicateSection(name));
    }
    let room = room(stub);
    if parts.len() > room {
        return Err(UkiError::NoRoom { needed: parts.len(), room });
    }
    let mut end = stub.headers_size;
    for section in &stub.sections {
        if section.virtual_address < end {
            return Err(UkiError::UnorderedStub);
        }
        end = section.virtual_address.checked_add(section.virtual_size).ok_or(UkiError::UnorderedStub)?;
    }
    Ok(())
}

/// How many more section headers fit before `SizeOfHeaders` and before the first section's bytes.
fn room(stub: &Image<'_>) -> usize {
    let used = stub.section_table() + stub.sections.len() * SECTION_HEADER;
    let first = stub.sections.iter().filter(|section| section.raw_size > 0).map(|section| section.raw_offset).min();
    let end = first.unwrap_or(stub.headers_size).min(stub.headers_size);
    let free = usize::try_from(end).unwrap_or(0).saturating_sub(used) / SECTION_HEADER;
    free.min(MAX_SECTIONS.saturating_sub(stub.sections.len()))
}

fn append(bytes: &[u8], stub: &Image<'_>, parts: &[(&'static str, &[u8])]) -> Result<Vec<u8>, UkiError> {
    let total: usize = parts.iter().map(|(_, content)| content.len() + 0x1000).sum();
    let mut image = Vec::with_capacity(bytes.len() + total);
    image.extend_from_slice(bytes);
    pad(&mut image, stub.file_alignment)?;

    let granularity = stub.section_alignment.max(PAGE);
    let end = stub.sections.last().map_or(stub.headers_size, |last| last.virtual_address + last.virtual_size);
    let mut address = round_up(end, granularity)?;
    let mut header = stub.section_table() + stub.sections.len() * SECTION_HEADER;
    let mut initialized = read_u32(bytes, stub.initialized_size_field());
    for (name, content) in parts {
        let virtual_size = u32::try_from(content.len()).map_err(|_| UkiError::TooLarge)?;
        let raw_offset = u32::try_from(image.len()).map_err(|_| UkiError::TooLarge)?;
        image.extend_from_slice(content);
        pad(&mut image, stub.file_alignment)?;
        let raw_size = round_up(virtual_size, stub.file_alignment)?;
        let entry = section_header(name, [virtual_size, address, raw_size, raw_offset]);
        write(&mut image, header, &entry);
        header += SECTION_HEADER;
        initialized = initialized.checked_add(raw_size).ok_or(UkiError::TooLarge)?;
        address = round_up(address.checked_add(virtual_size).ok_or(UkiError::TooLarge)?, granularity)?;
    }

    let count = u16::try_from(stub.sections.len() + parts.len()).map_err(|_| UkiError::TooLarge)?;
    write(&mut image, stub.section_count_field(), &count.to_le_bytes());
    write(&mut image, stub.initialized_size_field(), &initialized.to_le_bytes());
    write(&mut image, stub.image_size_field(), &address.to_le_bytes());
    // "The image file checksum": UEFI firmware does not look at it, and it is left out of the hash.
    write(&mut image, stub.checksum_field(), &[0; 4]);
    Ok(image)
}

fn section_header(name: &str, [virtual_size, address, raw_size, raw_offset]: [u32; 4]) -> [u8; SECTION_HEADER] {
    let mut header = [0; SECTION_HEADER];
    write(&mut header, 0, name.as_bytes());
    write(&mut header, 8, &virtual_size.to_le_bytes());
    write(&mut header, 12, &address.to_le_bytes());
    write(&mut header, 16, &raw_size.to_le_bytes());
    write(&mut header, 20, &raw_offset.to_le_bytes());
    write(&mut header, 36, &READ_ONLY_DATA.to_le_bytes());
    header
}

fn round_up(value: u32, granularity: u32) -> Result<u32, UkiError> {
    value.checked_next_multiple_of(granularity).ok_or(UkiError::TooLarge)
}

fn pad(image: &mut Vec<u8>, granularity: u32) -> Result<(), UkiError> {
    let length = u32::try_from(image.len()).map_err(|_| UkiError::TooLarge)?;
    image.resize(usize::try_from(round_up(length, granularity)?).map_err(|_| UkiError::TooLarge)?, 0);
    Ok(())
}

/// Writes at an offset that `Image::parse` or `room` found inside the headers.
fn write(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(offset..offset + value.len()) {
        field.copy_from_slice(value);
    }
}

/// Reads at an offset that `Image::parse` found inside the headers.
fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    latchkey_boot_formats::u32_at(bytes, offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_measurements::pe_sample::stub;

    const OS_RELEASE: &str = "ID=latchkey-test\nVERSION_ID=1\n";

    fn uki<'a>(stub: &'a [u8], linux: &'a [u8]) -> Uki<'a> {
        let command_line = "console=ttyS0 quiet";
        Uki { stub, linux, initrd: b"initrd", command_line, os_release: OS_RELEASE, uname: Some("6.1.0-test") }
    }

    #[test]
    fn the_parts_come_out_as_they_went_in() {
        let (stub, linux) = (stub(5), stub(0));
        let bytes = uki(&stub, &linux).build().unwrap();
        let image = Image::parse(&bytes).unwrap();
        assert_eq!(image.section(".osrel"), Some(OS_RELEASE.as_bytes()));
        assert_eq!(image.section(".cmdline"), Some(&b"console=ttyS0 quiet"[..]));
        assert_eq!(image.section(".uname"), Some(&b"6.1.0-test"[..]));
        assert_eq!(image.section(".initrd"), Some(&b"initrd"[..]));
        assert_eq!(image.section(".linux"), Some(&linux[..]));
        assert_eq!(image.section(".text"), Image::parse(&stub).unwrap().section(".text"));
    }

    #[test]
    fn sections_are_aligned_ordered_and_apart() {
        let (stub, linux) = (stub(5), stub(0));
        let bytes = uki(&stub, &linux).build().unwrap();
        let image = Image::parse(&bytes).unwrap();
        for pair in image.sections.windows(2) {
            assert!(pair[0].virtual_address + pair[0].virtual_size <= pair[1].virtual_address);
            assert!(pair[0].raw_offset + pair[0].raw_size <= pair[1].raw_offset);
            assert_eq!((pair[1].virtual_address % 0x1000, pair[1].raw_offset % 0x200), (0, 0));
        }
        let last = image.sections.last().unwrap();
        let size = read_u32(&bytes, image.image_size_field());
        assert_eq!(size, (last.virtual_address + last.virtual_size).next_multiple_of(0x1000));
        assert_eq!(read_u32(&bytes, image.checksum_field()), 0);
    }

    #[test]
    fn equal_parts_give_equal_bytes() {
        let (stub, linux) = (stub(5), stub(0));
        assert_eq!(uki(&stub, &linux).build(), uki(&stub.clone(), &linux.clone()).build());
    }

    #[test]
    fn unusable_stubs_are_refused_with_their_reason() {
        let linux = stub(0);
        assert_eq!(uki(&stub(3), &linux).build(), Err(UkiError::NoRoom { needed: 5, room: 3 }));
        assert_eq!(uki(b"no stub", &linux).build(), Err(UkiError::Stub(PeError::NotPe)));
        let finished = uki(&stub(20), &linux).build().unwrap();
        assert_eq!(uki(&finished, &linux).build(), Err(UkiError::DuplicateSection(".osrel")));
        let mut signed = stub(5);
        signed[0x58 + 112 + 36..0x58 + 112 + 40].copy_from_slice(&[1, 0, 0, 0]);
        assert_eq!(uki(&signed, &linux).build(), Err(UkiError::SignedStub));
        let mut low = stub(5);
        low[0x58 + 240 + 12..0x58 + 240 + 16].copy_from_slice(&[0; 4]);
        assert_eq!(uki(&low, &linux).build(), Err(UkiError::UnorderedStub));
    }

    #[test]
    fn unusable_parts_are_refused_with_their_reason() {
        let (stub, linux) = (stub(5), stub(0));
        assert_eq!(uki(&stub, b"MZ no kernel").build(), Err(UkiError::Linux(PeError::Truncated)));
        let mut other = linux.clone();
        other[0x44..0x46].copy_from_slice(&[0x64, 0xaa]);
        assert_eq!(uki(&stub, &other).build(), Err(UkiError::MachineMismatch));
        let long = "x".repeat(2048);
        let with = |command_line| Uki { command_line, ..uki(&stub, &linux) }.build();
        assert_eq!(with(&long), Err(UkiError::LongCommandLine(2048)));
        for text in ["", "a\0b", "a\nb"] {
            assert_eq!(with(text), Err(UkiError::BadText(".cmdline")));
        }
    }
}
