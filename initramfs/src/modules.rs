//! Finds kernel modules and everything they depend on, in the order in which to load them.
//!
//! Debian's kernel packages carry no `modules.dep` (depmod makes it on the installed machine), so
//! dependencies come from the modules themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::elf::{ElfError, ModInfo, normalise};
use crate::unpack;

/// What a node on a Debian cloud kernel (6.1, 6.12) needs before its own root file system is there.
///
/// `?` marks a module that may be missing, built in or refused by the hardware. Crypto templates are
/// in no module's dependencies, because the kernel would ask modprobe for them; so they are listed.
pub const DEBIAN_CLOUD: &[&str] = &[
    // Devices: virtio over PCI, NVMe (built in for both), randomness, the host's metadata.
    "?virtio_pci",
    "virtio_blk",
    "virtio_net",
    "?virtio_console",
    "?virtio_rng",
    "?nvme",
    "?qemu_fw_cfg",
    // What a confidential machine proves itself with, in kernels that have it.
    "?sev_guest",
    // The state disk: aes-xts-plain64 and what the kernel builds it from, the fast ones last:
    // the crypto API prefers what has the highest priority, not what came first.
    "?aes_generic",
    "?ecb",
    "?xts",
    "?sha256_generic",
    "?aesni_intel",
    "?sha256_ssse3",
    "dm_mod",
    "dm_crypt",
    // Its authenticated mode: authenc(hmac(sha256),xts(aes)) with the tags kept by dm-integrity.
    "dm_integrity",
    "?hmac",
    "authenc",
    // The verity root and the file systems it may have.
    "dm_verity",
    "squashfs",
    "erofs",
    "overlay",
];

/// When a node needs a module. Modules that nothing here knows count as drivers of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Before it looks for disks and networks.
    Devices,
    /// Before it opens its root.
    Root,
    /// Before it opens its state disk, for which it needs a key first.
    StateDisk,
}

impl Need {
    /// All, in the order of a boot.
    pub const ALL: [Self; 3] = [Self::Devices, Self::Root, Self::StateDisk];

    /// As the list of modules in the initramfs has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Root => "root",
            Self::StateDisk => "state-disk",
        }
    }

    fn of(module: &str) -> Self {
        match module {
            "dm_mod" | "dm_verity" | "sha256_generic" | "sha256_ssse3" | "squashfs" | "erofs" | "overlay" => Self::Root,
            "aes_generic" | "ecb" | "xts" | "aesni_intel" | "dm_crypt" | "dm_integrity" | "hmac" | "authenc" => {
                Self::StateDisk
            }
            _ => Self::Devices,
        }
    }
}

/// More files than any kernel package has (Debian's full kernel: about 4 000 modules).
const MAX_FILES: usize = 50_000;
/// Deeper than any kernel package nests.
const MAX_DEPTH: usize = 24;
/// No real chain of dependencies is longer than a dozen.
const MAX_CHAIN: usize = 64;
/// `modules.builtin` of the largest kernels is below 1 MiB.
const MAX_BUILTIN_LIST: u64 = 4 * 1024 * 1024;

/// A module asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, with underscores.
    pub name: String,
    /// Whether a node boots without it.
    pub optional: bool,
}

impl Wanted {
    /// Reads `name` or `?name`.
    pub fn parse(text: &str) -> Self {
        let (name, optional) = match text.strip_prefix('?') {
            Some(name) => (name, true),
            None => (text, false),
        };
        Self { name: normalise(name), optional }
    }
}

/// A module to put into the initramfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Whether the boot goes on if the kernel refuses it.
    pub optional: bool,
    /// When the first module is needed that needs this one, or this one itself.
    pub need: Need,
    /// The decompressed ELF file.
    pub bytes: Vec<u8>,
}

/// Why modules could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// A file or directory could not be read or decompressed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file is not a usable module.
    #[error("{}: {source}", .path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ElfError,
    },
    /// A module that must be there is neither a file nor built in.
    #[error("kernel module {name} is not in this kernel{}", needed_by.as_deref().map(|parent| format!(", and {parent} depends on it")).unwrap_or_default())]
    Missing {
        /// The module.
        name: String,
        /// The module that depends on it, if any.
        needed_by: Option<String>,
    },
    /// Two files have the same module name.
    #[error("kernel module {0} is there twice: {one} and {other}", one = .1.display(), other = .2.display())]
    Ambiguous(String, PathBuf, PathBuf),
    /// A file says it is another module than its name says.
    #[error("{path} says that it is the module {1}", path = .0.display())]
    WrongName(PathBuf, String),
    /// Modules depend on each other in a circle, or in an absurdly long chain.
    #[error("kernel module {0} depends on itself through others")]
    Circle(String),
    /// The directory holds more files, or nests deeper, than any kernel's.
    #[error("{}: more files or directories than any kernel has", .0.display())]
    TooMany(PathBuf),
}

/// The modules of one kernel, as `/lib/modules/VERSION` or an unpacked package holds them.
#[derive(Debug)]
pub struct ModuleTree {
    files: BTreeMap<String, Vec<PathBuf>>,
    builtin: BTreeSet<String>,
}

impl ModuleTree {
    /// Indexes the directory `root`, for example `/lib/modules/6.1.0-56-cloud-amd64`.
    pub fn open(root: &Path) -> Result<Self, ModuleError> {
        let mut tree = Self { files: BTreeMap::new(), builtin: builtin(&root.join("modules.builtin"))? };
        let mut seen = 0;
        tree.index(root, 0, &mut seen)?;
        Ok(tree)
    }

    /// The wanted modules and their dependencies, each after what it depends on, those that are needed first in front. Built-in
    /// ones are left out.
    pub fn closure(&self, wanted: &[Wanted]) -> Result<Vec<Module>, ModuleError> {
        let mut gathering = Gathering { tree: self, need: Need::Devices, done: BTreeMap::new(), order: Vec::new() };
        for need in Need::ALL {
            gathering.need = need;
            for module in wanted.iter().filter(|module| Need::of(&module.name) == need) {
                gathering.gather(&module.name, module.optional, &mut Vec::new())?;
            }
        }
        Ok(gathering.order)
    }

    fn index(&mut self, directory: &Path, depth: usize, seen: &mut usize) -> Result<(), ModuleError> {
        let failed = |source| ModuleError::Io { path: directory.into(), source };
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            *seen += 1;
            if *seen > MAX_FILES || depth > MAX_DEPTH {
                return Err(ModuleError::TooMany(directory.into()));
            }
            // Symbolic links (`build`, `source`) lead out of the package and are not followed.
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                self.index(&entry.path(), depth + 1, seen)?;
            } else if let (true, Some(name)) = (kind.is_file(), file_module_name(&entry.path())) {
                self.files.entry(name).or_default().push(entry.path());
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Result<Option<&Path>, ModuleError> {
        match self.files.get(name).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([path]) => Ok(Some(path)),
            Some([one, other, ..]) => Err(ModuleError::Ambiguous(name.into(), one.clone(), other.clone())),
        }
    }
}

fn file_module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    unpack::SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).map(normalise)
}

fn builtin(list: &Path) -> Result<BTreeSet<String>, ModuleError> {
    let failed = |source| ModuleError::Io { path: list.into(), source };
    match std::fs::metadata(list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed(error)),
        Ok(file) if file.len() > MAX_BUILTIN_LIST => return Err(ModuleError::TooMany(list.into())),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(list).map_err(failed)?;
    Ok(text.lines().filter_map(|line| file_module_name(Path::new(line.trim()))).collect())
}

/// A depth-first walk; `done` remembers the place of each module in `order` (none: built in or left out).
struct Gathering<'a> {
    tree: &'a ModuleTree,
    need: Need,
    done: BTreeMap<String, Option<usize>>,
    order: Vec<Module>,
}

impl Gathering<'_> {
    fn gather(&mut self, name: &str, optional: bool, chain: &mut Vec<String>) -> Result<(), ModuleError> {
        if chain.len() > MAX_CHAIN || chain.iter().any(|above| above == name) {
            return Err(ModuleError::Circle(name.into()));
        }
        if let Some(place) = self.done.get(name).copied() {
            return self.again(name, place, optional, chain);
        }
        if self.tree.builtin.contains(name) {
            self.done.insert(name.into(), None);
            return Ok(());
        }
        let Some(path) = self.tree.path(name)? else {
            return self.absent(name, optional, chain);
        };
        let bytes = unpack::read(path).map_err(|source| ModuleError::Io { path: path.into(), source })?;
        let info = ModInfo::parse(&bytes).map_err(|source| ModuleError::Elf { path: path.into(), source })?;
        if info.name != name {
            return Err(ModuleError::WrongName(path.into(), info.name));
        }
        self.dependencies(name, &info.depends, optional, chain)?;
        self.done.insert(name.into(), Some(self.order.len()));
        self.order.push(Module { name: name.into(), optional, need: self.need, bytes });
        Ok(())
    }

    fn dependencies(
        &mut self,
        name: &str,
        depends: &[String],
        optional: bool,
        chain: &mut Vec<String>,
    ) -> Result<(), ModuleError> {
        chain.push(name.into());
        for dependency in depends {
            self.gather(dependency, optional, chain)?;
        }
        chain.pop();
        Ok(())
    }

    /// Seen before: what was optional for one may be needed by another, and then so is all below it.
    fn again(
        &mut self,
        name: &str,
        place: Option<usize>,
        optional: bool,
        chain: &mut Vec<String>,
    ) -> Result<(), ModuleError> {
        let Some(module) = place.and_then(|place| self.order.get_mut(place)) else {
            return if self.tree.builtin.contains(name) { Ok(()) } else { self.absent(name, optional, chain) };
        };
        if optional || !module.optional {
            return Ok(());
        }
        module.optional = false;
        let path = self.tree.path(name)?.map(Path::to_path_buf).unwrap_or_default();
        let info = ModInfo::parse(&module.bytes).map_err(|source| ModuleError::Elf { path, source })?;
        self.dependencies(name, &info.depends, false, chain)
    }

    fn absent(&mut self, name: &str, optional: bool, chain: &[String]) -> Result<(), ModuleError> {
        // A file that names a dependency the kernel does not have is a damaged package, optional or not.
        if !optional || !chain.is_empty() {
            return Err(ModuleError::Missing { name: name.into(), needed_by: chain.last().cloned() });
        }
        self.done.insert(name.into(), None);
        Ok(())
    }
}
