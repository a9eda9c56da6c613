//! A disk in an attacker's hands: files of its boot partition, bytes of any other, parts of its unified kernel image.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_boot_formats::{Guid, gpt, partition_type};
use latchkey_image::Uki;
use latchkey_measurements::pe;

use crate::error::{HarnessError, io_error};
use crate::process::output;
use crate::run::Run;

/// What the firmware starts from a disk that it knows nothing about.
pub const LOADER: &str = "EFI/BOOT/BOOTX64.EFI";

/// A disk image (raw) that may be changed.
#[derive(Debug)]
pub struct TamperedDisk {
    path: PathBuf,
    file: std::fs::File,
}

impl TamperedDisk {
    /// A copy of `original` in the run's directory; holes stay holes.
    pub fn copy(run: &Run, name: &str, original: &Path) -> Result<Self, HarnessError> {
        let path = run.file(name);
        output(Command::new("cp").arg("--sparse=always").arg(original).arg(&path))?;
        let file = std::fs::File::options().read(true).write(true).open(&path).map_err(io_error("open", &path))?;
        Ok(Self { path, file })
    }

    /// The image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of the boot partition; directories appear by themselves.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), HarnessError> {
        let (start, _) = self.partition(partition_type::ESP)?;
        let volume = format!("{}@@{start}", self.path.display());
        let source = self.path.with_extension("part");
        std::fs::write(&source, content).map_err(io_error("write", &source))?;
        let mtool = |tool: &str| -> Result<Command, HarnessError> {
            let mut command = Command::new(crate::doctor::need(tool)?);
            command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(&volume);
            Ok(command)
        };
        for (end, _) in name.match_indices('/') {
            let directory = format!("::{}", &name[..end]);
            if output(mtool("mdir")?.args(["-b", &directory])).is_err() {
                output(mtool("mmd")?.arg(&directory))?;
            }
        }
        output(mtool("mcopy")?.arg("-o").arg(&source).arg(format!("::{name}")))?;
        std::fs::remove_file(&source).map_err(io_error("remove", &source))
    }

    /// Flips a bit of the partition of this type, `offset` bytes into it.
    pub fn flip(&self, kind: Guid, offset: u64) -> Result<(), HarnessError> {
        let (start, length) = self.partition(kind)?;
        if offset >= length {
            return Err(HarnessError::Unusable(format!("the partition has {length} bytes, none at {offset}")));
        }
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, start + offset).map_err(io_error("read", &self.path))?;
        self.file.write_all_at(&byte.map(|byte| byte ^ 1), start + offset).map_err(io_error("write", &self.path))
    }

    /// Where this content is in the partition of this type.
    pub fn find(&self, kind: Guid, content: &[u8]) -> Result<u64, HarnessError> {
        let (start, length) = self.partition(kind)?;
        let unusable = |why: &str| HarnessError::Unusable(format!("{}: {why}", self.path.display()));
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| unusable("too large"))?];
        self.file.read_exact_at(&mut bytes, start).map_err(io_error("read", &self.path))?;
        let at = bytes.windows(content.len()).position(|window| window == content);
        at.map(|at| at as u64).ok_or_else(|| unusable("what was looked for is not there as it is"))
    }

    /// Where the partition of this type begins, and its length.
    fn partition(&self, kind: Guid) -> Result<(u64, u64), HarnessError> {
        let unusable = |why: String| HarnessError::Unusable(format!("{}: {why}", self.path.display()));
        let size = latchkey_boot_formats::ReadAt::size(&self.file).map_err(io_error("read", &self.path))?;
        let table = gpt::read(&self.file, size, 512).map_err(|error| unusable(error.to_string()))?;
        let partition = table.partitions.iter().find(|partition| partition.kind == kind);
        let partition = partition.ok_or_else(|| unusable(format!("no partition of type {kind}")))?;
        partition.extent(512).ok_or_else(|| unusable("more bytes than a disk has".to_owned()))
    }
}

/// The parts of a unified kernel image, each of which may be changed before it is put together again.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The boot stub, which the image does not keep apart: it comes from where the image's builder had it.
    pub stub: Vec<u8>,
    /// The kernel.
    pub linux: Vec<u8>,
    /// The initramfs.
    pub initrd: Vec<u8>,
    /// The command line.
    pub command_line: String,
    os_release: String,
    uname: Option<String>,
}

impl Parts {
    /// Takes an image apart.
    pub fn of(image: &[u8], stub: Vec<u8>) -> Result<Self, HarnessError> {
        let parsed = pe::Image::parse(image).map_err(|error| HarnessError::Unusable(error.to_string()))?;
        let section = |name: &str| {
            let missing = || HarnessError::Unusable(format!("the image has no section {name}"));
            parsed.section(name).map(<[u8]>::to_vec).ok_or_else(missing)
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
        Ok(Self {
            stub,
            linux: section(".linux")?,
            initrd: section(".initrd")?,
            command_line: text(section(".cmdline")?),
            os_release: text(section(".osrel")?),
            uname: section(".uname").ok().map(text),
        })
    }

    /// Puts the image together.
    pub fn build(&self) -> Result<Vec<u8>, HarnessError> {
        let uki = Uki {
            stub: &self.stub,
            linux: &self.linux,
            initrd: &self.initrd,
            command_line: &self.command_line,
            os_release: &self.os_release,
            uname: self.uname.as_deref(),
        };
        Ok(uki.build()?)
    }
}

/// A boot stub's addon: any EFI program that has no kernel in it, with these sections. Stubs of systemd 254 and later take
/// up those beside the image (`EFI/BOOT/BOOTX64.EFI.extra.d/*.addon.efi`) and of the partition (`loader/addons`).
pub fn addon(sections: &[(&str, &[u8])]) -> Result<Vec<u8>, HarnessError> {
    let stub = crate::bootimage::stub()?;
    let program = std::fs::read(&stub).map_err(io_error("read", &stub))?;
    sections.iter().try_fold(program, |program, (name, content)| with_section(&program, name, content))
}

/// Appends a section to a finished image, as `objcopy --add-section` does.
pub fn with_section(image: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, HarnessError> {
    let unusable = |what: &str| HarnessError::Unusable(format!("cannot append {name}: {what}"));
    let parsed = pe::Image::parse(image).map_err(|error| unusable(&error.to_string()))?;
    let number = |value: usize| u32::try_from(value).map_err(|_| unusable("too large"));
    let last = parsed.sections.iter().max_by_key(|section| section.virtual_address).ok_or_else(|| unusable("empty"))?;
    let address = (last.virtual_address + last.virtual_size).next_multiple_of(parsed.section_alignment.max(0x1000));
    let mut bytes = image.to_vec();
    bytes.resize(bytes.len().next_multiple_of(parsed.file_alignment as usize), 0);
    let offset = number(bytes.len())?;
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(parsed.file_alignment as usize), 0);

    let mut header = [0; pe::SECTION_HEADER];
    header[..name.len()].copy_from_slice(name.as_bytes());
    let raw = number(bytes.len())? - offset;
    let fields = [(8, number(content.len())?), (12, address), (16, raw), (20, offset), (36, 0x4000_0040)];
    for (at, value) in fields {
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let place = parsed.section_table() + parsed.sections.len() * pe::SECTION_HEADER;
    let contents =
        parsed.sections.iter().filter(|section| section.raw_size > 0).map(|section| section.raw_offset).min();
    if number(place + pe::SECTION_HEADER)? > contents.unwrap_or(offset) {
        return Err(unusable("the header has no room for it"));
    }
    bytes[place..place + header.len()].copy_from_slice(&header);
    let count = u16::try_from(parsed.sections.len() + 1).map_err(|_| unusable("too many sections"))?;
    let at = parsed.section_count_field();
    bytes[at..at + 2].copy_from_slice(&count.to_le_bytes());
    let end = (address + number(content.len())?).next_multiple_of(parsed.section_alignment.max(0x1000));
    let at = parsed.image_size_field();
    bytes[at..at + 4].copy_from_slice(&end.to_le_bytes());
    Ok(bytes)
}
