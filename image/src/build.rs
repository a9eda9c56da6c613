//! The build, from what an image is made of to the files that are handed out.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use latchkey_attestation::ImageVersion;
use latchkey_initramfs::{DEBIAN_CLOUD, Initramfs, InitramfsError, ModuleTree, Wanted};
use ring::digest::{Context, SHA256};

use crate::error::{ImageError, at};
use crate::gpt::{Content, Disk, ESP, Guid, Partition, ROOT_VERITY_X86_64, ROOT_X86_64, STATE};
use crate::identity::Identity;
use crate::program::Program;
use crate::root::{Compression, Root, RootFormat};
use crate::uki::Uki;
use crate::verity::{self, Tree};
use crate::words::WordError;
use crate::{esp, kernel, os_release, words};

/// Debian's boot stub, from the package systemd-boot-efi.
pub const DEBIAN_STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// Enough to be a partition; the agent grows it to the disk's end.
const STATE_SIZE: u64 = 16 << 20;
/// A file name with a version and an ending must stay below 255 bytes.
const MAX_NAME: usize = 64;

/// A part that is a file or is there already.
#[derive(Debug, Clone)]
pub enum Source {
    /// This file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// What an image is made of. All but the sizes is measured.
#[derive(Debug, Clone)]
pub struct Image {
    /// Lower-case letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Its version.
    pub version: ImageVersion,
    /// The kernel (`vmlinuz` with EFI stub).
    pub kernel: Source,
    /// The folder of its modules, for example `/lib/modules/6.1.0-56-cloud-amd64`.
    pub modules: PathBuf,
    /// Which go into the initramfs, with what they depend on [`DEBIAN_CLOUD`].
    pub module_names: Vec<Wanted>,
    /// The agent, a static executable.
    pub agent: Source,
    /// More files for the initramfs: path, permissions, content. Images that ship need none.
    pub initramfs_files: Vec<(String, u32, Vec<u8>)>,
    /// systemd's boot stub [`DEBIAN_STUB`].
    pub stub: Source,
    /// A directory, a tar archive, or a finished squashfs or erofs.
    pub root: PathBuf,
    /// What is made of a directory or an archive [squashfs].
    pub root_format: Option<RootFormat>,
    /// How its contents are compressed [zstd for squashfs, lz4 for erofs].
    pub compression: Option<Compression>,
    /// The operator's own words of the kernel command line.
    pub command_line: String,
    /// `os-release` [that of the root].
    pub os_release: Option<Source>,
    /// Bytes of the boot partition [as many as it needs].
    pub esp_size: Option<u64>,
    /// Bytes of the state partition [16 MiB].
    pub state_size: u64,
    /// Whether to make a qcow2 file too.
    pub qcow2: bool,
    /// Time of everything in the image that has one, seconds since 1970 [0].
    pub epoch: u32,
    /// Whether the agent would take the finished command line: the agent's own parser, where the caller has it.
    pub agent_check: Option<CommandLineCheck>,
}

/// Says why a command line is not to be used.
pub type CommandLineCheck = fn(&str) -> Result<(), String>;

/// How a build goes.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Work on a part begins.
    Begins(&'static str),
    /// A part is finished.
    Done(&'a Part),
}

/// Something that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub what: &'static str,
    /// Its file, if it is one and not only inside another.
    pub file: Option<PathBuf>,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Everything that was made, in order.
    pub parts: Vec<Part>,
    /// The root hash of the verity tree.
    pub root_hash: [u8; 32],
    /// The whole measured command line.
    pub command_line: String,
    /// The kernel's release.
    pub kernel_release: String,
    /// The disk.
    pub disk: PathBuf,
    /// The disk as qcow2.
    pub qcow2: Option<PathBuf>,
    /// The unified kernel image.
    pub uki: PathBuf,
}

impl Image {
    /// An image with the defaults that stand at the fields in brackets, and no words of the operator.
    pub fn new(
        name: impl Into<String>,
        version: ImageVersion,
        kernel: Source,
        modules: impl Into<PathBuf>,
        agent: Source,
        root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            version,
            kernel,
            modules: modules.into(),
            module_names: DEBIAN_CLOUD.iter().map(|name| Wanted::parse(name)).collect(),
            agent,
            initramfs_files: Vec::new(),
            stub: Source::File(DEBIAN_STUB.into()),
            root: root.into(),
            root_format: None,
            compression: None,
            command_line: String::new(),
            os_release: None,
            esp_size: None,
            state_size: STATE_SIZE,
            qcow2: false,
            epoch: 0,
            agent_check: None,
        }
    }

    /// Builds the image into the folder `out`, which is made if it is not there: `NAME_VERSION.raw`, `NAME_VERSION.efi`
    /// and, if wanted, `NAME_VERSION.qcow2`. Files of these names are replaced once everything is finished.
    pub fn build(&self, out: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Built, ImageError> {
        let name = FileName::new(&self.name, self.version)?;
        let words = words::check(&self.command_line)?;
        let root = Root::look(&self.root, self.root_format, self.compression)?;
        if self.qcow2 {
            Program::QemuImg.demand()?;
        }
        let workshop = Workshop::new(out, &name)?;
        let version = self.version.to_string();
        let identity = Identity { name: &self.name, version: &version };
        let mut parts = Parts { progress, list: Vec::new() };

        let kernel = self.kernel.read()?;
        let release = kernel::release(&kernel)?;
        let os_release = match &self.os_release {
            Some(source) => os_release::text(&source.read()?[..])?,
            None => root.os_release()?,
        };
        let os_release = os_release::with_image(&os_release, &self.name, &version)?;

        parts.begins("root");
        let root_file = workshop.file("root");
        let blocks = root.make(&root_file, self.epoch, identity.uuid("root file system"))?;
        parts.file("root", &root_file, None)?;
        parts.begins("root-verity");
        let salt = identity.bytes("verity salt");
        let data = File::open(&root_file).map_err(at(&root_file))?;
        let tree = verity::hash(&data, blocks, &salt, identity.uuid("verity")).map_err(at(&root_file))?;
        parts.bytes("root-verity", &tree.bytes, None);

        parts.begins("initramfs");
        let initrd = self.initramfs(release)?;
        parts.bytes("initramfs", &initrd, None);
        parts.begins("uki");
        let command_line = self.whole_command_line(&words, &tree, &salt, root.format)?;
        let stub = self.stub.read()?;
        let uki = Uki {
            stub: &stub,
            linux: &kernel,
            initrd: &initrd,
            command_line: &command_line,
            os_release: &os_release,
            uname: Some(release),
        };
        let uki = uki.build()?;
        let uki_file = workshop.write("uki.efi", &uki)?;
        parts.bytes("uki", &uki, Some(name.with("efi")));

        parts.begins("esp");
        let volume = identity.bytes("boot volume");
        let volume = volume.first_chunk().copied().map_or(0, u32::from_le_bytes);
        let boot = esp::build(&uki, self.esp_size, volume).map_err(ImageError::Esp)?;
        parts.bytes("esp", &boot, None);
        parts.begins("disk");
        let disk_file = workshop.file("disk.raw");
        self.disk(&disk_file, identity, &boot, &root_file, &tree)?;
        parts.file("disk", &disk_file, Some(name.with("raw")))?;
        let mut finished = vec![(disk_file.clone(), name.with("raw")), (uki_file, name.with("efi"))];
        if self.qcow2 {
            parts.begins("disk-qcow2");
            let qcow2 = workshop.file("disk.qcow2");
            convert(&disk_file, &qcow2)?;
            parts.file("disk-qcow2", &qcow2, Some(name.with("qcow2")))?;
            finished.push((qcow2, name.with("qcow2")));
        }

        for (from, to) in finished {
            fs::rename(&from, out.join(&to)).map_err(at(out.join(to)))?;
        }
        Ok(Built {
            parts: parts.list,
            root_hash: tree.root_hash,
            command_line,
            kernel_release: release.into(),
            disk: out.join(name.with("raw")),
            qcow2: self.qcow2.then(|| out.join(name.with("qcow2"))),
            uki: out.join(name.with("efi")),
        })
    }

    fn initramfs(&self, release: &str) -> Result<Vec<u8>, ImageError> {
        let tree = ModuleTree::open(&self.modules).map_err(InitramfsError::from)?;
        let modules = tree.closure(&self.module_names).map_err(InitramfsError::from)?;
        for module in &modules {
            kernel::check_module(&module.name, &module.bytes, release)?;
        }
        let mut initramfs = Initramfs::new(self.agent.read()?)?;
        initramfs.modules(modules)?;
        for (path, permissions, content) in &self.initramfs_files {
            initramfs.file(path, *permissions, content.clone())?;
        }
        Ok(initramfs.build(self.epoch)?)
    }

    fn whole_command_line(
        &self,
        words: &str,
        tree: &Tree,
        salt: &[u8],
        format: RootFormat,
    ) -> Result<String, ImageError> {
        let (hash, salt, blocks) = (hex::encode(tree.root_hash), hex::encode(salt), tree.data_blocks);
        let own = format!("latchkey.root_verity={hash},salt={salt},blocks={blocks} latchkey.root_fs={}", format.name());
        let whole = if words.is_empty() { own } else { format!("{words} {own}") };
        self.agent_check.map_or(Ok(()), |check| check(&whole)).map_err(WordError::Agent)?;
        Ok(whole)
    }

    fn disk(
        &self,
        file: &Path,
        identity: Identity<'_>,
        boot: &[u8],
        root: &Path,
        tree: &Tree,
    ) -> Result<(), ImageError> {
        let (first, last) = halves(tree.root_hash);
        let id = |purpose| Guid(identity.uuid(purpose));
        let partition = |label, kind, id, content| Partition { label, kind, id, content };
        let disk = Disk {
            id: id("disk"),
            partitions: vec![
                partition("esp", ESP, id("boot partition"), Content::Bytes(boot)),
                partition("root", ROOT_X86_64, first, Content::File(root)),
                partition("root-verity", ROOT_VERITY_X86_64, last, Content::Bytes(&tree.bytes)),
                partition("state", STATE, id("state partition"), Content::Empty(self.state_size)),
            ],
        };
        let mut out = File::create_new(file).map_err(at(file))?;
        disk.write(&mut out)?;
        Ok(())
    }
}

impl Source {
    /// The bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ImageError> {
        match self {
            Self::File(path) => fs::read(path).map_err(at(path)),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

/// The identifiers of the root and the verity partition: the first and the last 128 bits of the root hash, as the
/// Discoverable Partitions Specification has it.
fn halves(root_hash: [u8; 32]) -> (Guid, Guid) {
    let (mut first, mut last) = ([0; 16], [0; 16]);
    first.copy_from_slice(root_hash.split_at(16).0);
    last.copy_from_slice(root_hash.split_at(16).1);
    (Guid(first), Guid(last))
}

fn convert(raw: &Path, qcow2: &Path) -> Result<(), ImageError> {
    let mut arguments: Vec<_> = ["convert", "-f", "raw", "-O", "qcow2"].iter().map(std::ffi::OsString::from).collect();
    for path in [raw, qcow2] {
        arguments.push(std::path::absolute(path).map_err(at(path))?.into());
    }
    Ok(Program::QemuImg.run(arguments, None)?)
}

/// `NAME_VERSION`
struct FileName(String);

impl FileName {
    fn new(name: &str, version: ImageVersion) -> Result<Self, ImageError> {
        let start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let allowed = |byte: u8| start(byte) || matches!(byte, b'-' | b'_' | b'.');
        let good = name.len() <= MAX_NAME && name.bytes().next().is_some_and(start) && name.bytes().all(allowed);
        if good { Ok(Self(format!("{name}_{version}"))) } else { Err(ImageError::Name(name.into())) }
    }

    fn with(&self, ending: &str) -> PathBuf {
        format!("{}.{ending}", self.0).into()
    }
}

/// Where unfinished files lie; it goes away with them.
struct Workshop(PathBuf);

impl Workshop {
    fn new(out: &Path, name: &FileName) -> Result<Self, ImageError> {
        fs::create_dir_all(out).map_err(at(out))?;
        let path = out.join(format!(".{}.{}.unfinished", name.0, std::process::id()));
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ImageError> {
        let path = self.file(name);
        File::create_new(&path).and_then(|mut file| file.write_all(bytes)).map_err(at(&path))?;
        Ok(path)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // What cannot be removed is named as what it is.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What was made so far, told as it is made.
struct Parts<'a> {
    progress: &'a mut dyn FnMut(Progress<'_>),
    list: Vec<Part>,
}

impl Parts<'_> {
    fn begins(&mut self, what: &'static str) {
        (self.progress)(Progress::Begins(what));
    }

    fn bytes(&mut self, what: &'static str, bytes: &[u8], file: Option<PathBuf>) {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        self.add(what, file, bytes.len() as u64, context);
    }

    fn file(&mut self, what: &'static str, path: &Path, file: Option<PathBuf>) -> Result<(), ImageError> {
        let mut context = Context::new(&SHA256);
        let size = hash_file(path, &mut context).map_err(at(path))?;
        self.add(what, file, size, context);
        Ok(())
    }

    fn add(&mut self, what: &'static str, file: Option<PathBuf>, size: u64, context: Context) {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(context.finish().as_ref());
        let part = Part { what, file, size, sha256 };
        (self.progress)(Progress::Done(&part));
        self.list.push(part);
    }
}

fn hash_file(path: &Path, context: &mut Context) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let read = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(size) };
        context.update(bytes);
        size += read as u64;
    }
}
