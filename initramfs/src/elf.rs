//! What a kernel module says about itself, read from its ELF section `.modinfo`.
//!
//! A strict, bounded reader of the one kind of file a module is: 64-bit, little-endian, relocatable.
//! Layout: ELF-64 Object File Format, version 1.5, figures 2 and 8.

/// The largest module Debian ships is below 10 MiB.
pub const MAX_MODULE: usize = 64 * 1024 * 1024;
/// Modules have below 200 sections; with 0xff00 and more, ELF would use an escape that is refused here.
const MAX_SECTIONS: usize = 4096;
/// `.modinfo` of the largest driver, with all its device aliases, is below 100 KiB.
const MAX_MODINFO: usize = 1024 * 1024;
/// `MODULE_NAME_LEN` (64 - sizeof(unsigned long)) of include/linux/moduleparam.h, with its NUL.
const MAX_NAME: usize = 55;
/// No module names more than a dozen.
const MAX_DEPENDENCIES: usize = 128;

/// `e_type` of a relocatable object, which every module is.
const ET_REL: u16 = 1;
/// Size of `Elf64_Ehdr`.
const HEADER: usize = 64;
/// Size of `Elf64_Shdr`.
const SECTION_HEADER: usize = 64;

/// The part of `.modinfo` that says what to load and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModInfo {
    /// The module's own name, with underscores.
    pub name: String,
    /// Names of the modules that must be loaded before it, with underscores.
    pub depends: Vec<String>,
}

/// Why bytes are not taken for a kernel module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file ends before what its header promises.
    #[error("the file is cut short")]
    Truncated,
    /// No ELF magic, not 64-bit little-endian, or not relocatable.
    #[error("not a 64-bit little-endian relocatable ELF file, so not a kernel module")]
    NotAModule,
    /// Larger than any module, or more sections or information than any module has.
    #[error("larger than any kernel module")]
    TooLarge,
    /// A section or string lies outside the file.
    #[error("a section lies outside the file")]
    OutOfBounds,
    /// There is no section `.modinfo`, or two.
    #[error("it has not exactly one section .modinfo")]
    NoModInfo,
    /// `.modinfo` holds no name, two, or a name with characters no module has.
    #[error("its .modinfo has no usable name")]
    BadName,
    /// `depends=` is missing, there twice, or names too many modules.
    #[error("its .modinfo has no usable list of dependencies")]
    BadDepends,
}

impl ModInfo {
    /// Reads the module `bytes` (already decompressed).
    pub fn parse(bytes: &[u8]) -> Result<Self, ElfError> {
        if bytes.len() > MAX_MODULE {
            return Err(ElfError::TooLarge);
        }
        let section = modinfo_section(bytes)?;
        if section.len() > MAX_MODINFO {
            return Err(ElfError::TooLarge);
        }
        let name = single(section, b"name=").ok_or(ElfError::BadName)?;
        let depends = single(section, b"depends=").ok_or(ElfError::BadDepends)?;
        Ok(Self { name: module_name(name)?, depends: dependencies(depends)? })
    }
}

/// The name as the kernel has it in /proc/modules: files are called `dm-crypt.ko`, the module `dm_crypt`.
pub fn normalise(name: &str) -> String {
    name.replace('-', "_")
}

fn modinfo_section(bytes: &[u8]) -> Result<&[u8], ElfError> {
    let header = bytes.get(..HEADER).ok_or(ElfError::Truncated)?;
    // EI_CLASS 2 = 64 bit, EI_DATA 1 = little endian, EI_VERSION 1.
    if !header.starts_with(b"\x7fELF\x02\x01\x01") || u16_at(header, 16)? != ET_REL {
        return Err(ElfError::NotAModule);
    }
    let table = u64_at(header, 40)?;
    let (entry_size, count, names) = (u16_at(header, 58)?, u16_at(header, 60)?, u16_at(header, 62)?);
    if usize::from(entry_size) != SECTION_HEADER {
        return Err(ElfError::NotAModule);
    }
    let count = usize::from(count);
    if count > MAX_SECTIONS {
        return Err(ElfError::TooLarge);
    }
    let table_size = u64::try_from(count * SECTION_HEADER).map_err(|_| ElfError::TooLarge)?;
    let sections = slice(bytes, table, table_size)?;
    let headers = || sections.chunks_exact(SECTION_HEADER);
    let names = content(bytes, headers().nth(usize::from(names)).ok_or(ElfError::OutOfBounds)?)?;

    let mut found = None;
    for section in headers() {
        if string_at(names, u32_at(section, 0)?)? == b".modinfo" && found.replace(content(bytes, section)?).is_some() {
            return Err(ElfError::NoModInfo);
        }
    }
    found.ok_or(ElfError::NoModInfo)
}

/// The value of the one entry that starts with `key`; none if there are two.
fn single<'a>(section: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut values = section.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(key));
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

fn dependencies(list: &[u8]) -> Result<Vec<String>, ElfError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = list.split(|byte| *byte == b',').take(MAX_DEPENDENCIES + 1).collect();
    if names.len() > MAX_DEPENDENCIES {
        return Err(ElfError::BadDepends);
    }
    names.into_iter().map(module_name).collect()
}

fn module_name(name: &[u8]) -> Result<String, ElfError> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME || !name.iter().all(allowed) {
        return Err(ElfError::BadName);
    }
    std::str::from_utf8(name).map(normalise).map_err(|_| ElfError::BadName)
}

fn content<'a>(bytes: &'a [u8], section: &[u8]) -> Result<&'a [u8], ElfError> {
    slice(bytes, u64_at(section, 24)?, u64_at(section, 32)?)
}

pub(crate) fn slice(bytes: &[u8], offset: u64, length: u64) -> Result<&[u8], ElfError> {
    let start = usize::try_from(offset).map_err(|_| ElfError::OutOfBounds)?;
    let length = usize::try_from(length).map_err(|_| ElfError::OutOfBounds)?;
    latchkey_boot_formats::slice_at(bytes, start, length).ok_or(ElfError::OutOfBounds)
}

fn string_at(table: &[u8], offset: u32) -> Result<&[u8], ElfError> {
    let offset = usize::try_from(offset).map_err(|_| ElfError::OutOfBounds)?;
    let rest = table.get(offset..).ok_or(ElfError::OutOfBounds)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(ElfError::OutOfBounds)?;
    rest.get(..end).ok_or(ElfError::OutOfBounds)
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], ElfError> {
    latchkey_boot_formats::array_at(bytes, offset).ok_or(ElfError::Truncated)
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, ElfError> {
    field(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, ElfError> {
    field(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Result<u64, ElfError> {
    field(bytes, offset).map(u64::from_le_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A module with nothing in it but `.modinfo`: header, string table, information, section table.
    pub(crate) fn module(modinfo: &[u8]) -> Vec<u8> {
        const NAMES: &[u8] = b"\0.shstrtab\0.modinfo\0";
        let info_at = HEADER + NAMES.len();
        let table_at = info_at + modinfo.len();
        let mut bytes = vec![0; HEADER];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[16..18].copy_from_slice(&ET_REL.to_le_bytes());
        bytes[40..48].copy_from_slice(&(table_at as u64).to_le_bytes());
        bytes[58..64].copy_from_slice(&[64, 0, 3, 0, 1, 0]);
        bytes.extend_from_slice(NAMES);
        bytes.extend_from_slice(modinfo);
        for (name, at, length) in [(0_u32, 0, 0), (1, HEADER, NAMES.len()), (11, info_at, modinfo.len())] {
            let mut section = [0; SECTION_HEADER];
            section[..4].copy_from_slice(&name.to_le_bytes());
            section[24..32].copy_from_slice(&(at as u64).to_le_bytes());
            section[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            bytes.extend_from_slice(&section);
        }
        bytes
    }

    fn parse(modinfo: &[u8]) -> Result<ModInfo, ElfError> {
        ModInfo::parse(&module(modinfo))
    }

    #[test]
    fn names_and_dependencies_are_read_with_underscores() {
        let info = parse(b"license=GPL\0depends=dm-mod,libcrc32c\0intree=Y\0name=dm_crypt\0").unwrap();
        assert_eq!(info.name, "dm_crypt");
        assert_eq!(info.depends, ["dm_mod", "libcrc32c"]);
        assert_eq!(parse(b"depends=\0name=xts\0").unwrap().depends, [""; 0]);
    }

    #[test]
    fn hostile_module_information_is_refused() {
        let long = [&b"depends=\0name="[..], &[b'x'; 56], b"\0"].concat();
        let many = [&b"name=x\0depends="[..], &b"a,".repeat(200), b"a\0"].concat();
        let huge = [&b"name=x\0depends=\0pad="[..], &vec![b'x'; MAX_MODINFO]].concat();
        let cases: [(&[u8], ElfError); 10] = [
            (b"", ElfError::BadName),
            (b"name=\0depends=\0", ElfError::BadName),
            (b"name=a\0name=b\0depends=\0", ElfError::BadName),
            (b"name=../x\0depends=\0", ElfError::BadName),
            (b"name=x\0depends=a,,b\0", ElfError::BadName),
            (b"name=x\0", ElfError::BadDepends),
            (b"name=x\0depends=a\0depends=b\0", ElfError::BadDepends),
            (&long, ElfError::BadName),
            (&many, ElfError::BadDepends),
            (&huge, ElfError::TooLarge),
        ];
        for (modinfo, expected) in cases {
            assert_eq!(
                parse(modinfo),
                Err(expected),
                "{:?}",
                String::from_utf8_lossy(&modinfo[..modinfo.len().min(40)])
            );
        }
    }

    #[test]
    fn a_module_cut_anywhere_is_refused_without_panic() {
        let whole = module(b"name=x\0depends=a\0");
        for length in 0..whole.len() {
            assert!(ModInfo::parse(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn every_byte_of_the_headers_may_lie_without_panic() {
        let whole = module(b"name=x\0depends=a\0");
        let good = ModInfo::parse(&whole).unwrap();
        for position in 0..whole.len() {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] = value;
                if let Ok(info) = ModInfo::parse(&bytes) {
                    assert!(info.name.len() <= MAX_NAME && info.depends.len() <= good.depends.len());
                }
            }
        }
    }

    #[test]
    fn offsets_that_overflow_are_out_of_bounds() {
        let mut bytes = module(b"name=x\0depends=\0");
        bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(ModInfo::parse(&bytes), Err(ElfError::OutOfBounds));
        let mut bytes = module(b"name=x\0depends=\0");
        let last = bytes.len() - SECTION_HEADER;
        bytes[last + 24..last + 40].fill(0xff);
        assert_eq!(ModInfo::parse(&bytes), Err(ElfError::OutOfBounds));
    }

    #[test]
    fn other_elf_files_are_no_modules() {
        let mut executable = module(b"name=x\0depends=\0");
        executable[16] = 2;
        assert_eq!(ModInfo::parse(&executable), Err(ElfError::NotAModule));
        let mut narrow = module(b"name=x\0depends=\0");
        narrow[4] = 1;
        assert_eq!(ModInfo::parse(&narrow), Err(ElfError::NotAModule));
        assert_eq!(ModInfo::parse(&[b'x'; 64]), Err(ElfError::NotAModule));
        assert_eq!(ModInfo::parse(b""), Err(ElfError::Truncated));
    }
}
