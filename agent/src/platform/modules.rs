//! Kernel modules, loaded in a written-down order.
//!
//! The builder of the initramfs resolves dependencies and writes the result to `/lib/modules/order`; the agent only
//! follows the list. One path per line, relative to `/lib/modules`, no module before those it needs; `#` begins a
//! comment; a leading `?` says that the boot goes on without this module (`?sev-guest.ko`: ENODEV outside a
//! confidential machine). Modules are uncompressed.
//!
//! The lines `[root]` and `[state-disk]` begin what is needed only before the root, and the state disk, is opened: checking a
//! module's signature takes a slow machine tens of milliseconds, which pass while the node waits for something else.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path};

use super::pid1::Pid1;
use latchkey_reason::reason_codes;

/// Where the initramfs keeps its modules.
pub const DIRECTORY: &str = "/lib/modules";

/// The largest list read; a thousand modules fit.
const MAX_LIST_BYTES: u64 = 64 * 1024;

/// What became of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Modules that are now in the kernel, those built in or loaded before included.
    pub loaded: usize,
    /// Optional modules the kernel did not take, with its reason.
    pub skipped: Vec<String>,
}

/// When modules are needed: the sections of the list, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Before devices are looked for: what stands before any other section.
    Devices,
    /// Before the root is opened.
    Root,
    /// Before the state disk is opened.
    StateDisk,
}

/// Loads the modules of one section, in order. No list means a kernel that needs no modules.
pub fn load(_: Pid1, need: Need) -> Result<Loaded, ModuleError> {
    load_from(Path::new(DIRECTORY), need, |path| {
        let file = File::open(path)?;
        Ok(rustix::system::finit_module(file, c"", 0)?)
    })
}

fn load_from(
    directory: &Path,
    need: Need,
    mut insert: impl FnMut(&Path) -> io::Result<()>,
) -> Result<Loaded, ModuleError> {
    let mut result = Loaded::default();
    let Some(list) = read_list(&directory.join("order"))? else { return Ok(result) };
    // The whole list is read each time: a line that is wrong anywhere ends the boot before anything is loaded.
    for entry in parse(&list)?.into_iter().filter(|entry| entry.need == need) {
        match insert(&directory.join(entry.path)) {
            Ok(()) => result.loaded += 1,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => result.loaded += 1,
            Err(error) if entry.optional => result.skipped.push(format!("{}: {error}", entry.path)),
            Err(source) => return Err(ModuleError::Refused { path: entry.path.to_owned(), source }),
        }
    }
    Ok(result)
}

fn read_list(path: &Path) -> Result<Option<String>, ModuleError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ModuleError::List { source }),
    };
    let mut text = String::new();
    file.take(MAX_LIST_BYTES + 1).read_to_string(&mut text).map_err(|source| ModuleError::List { source })?;
    if text.len() as u64 > MAX_LIST_BYTES {
        return Err(ModuleError::List { source: io::Error::from(io::ErrorKind::FileTooLarge) });
    }
    Ok(Some(text))
}

#[derive(Debug, PartialEq, Eq)]
struct Listed<'a> {
    path: &'a str,
    optional: bool,
    need: Need,
}

fn parse(list: &str) -> Result<Vec<Listed<'_>>, ModuleError> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    let mut need = Need::Devices;
    let mut entries = Vec::new();
    for line in lines {
        let next = match line {
            "[root]" => Need::Root,
            "[state-disk]" => Need::StateDisk,
            module => {
                entries.push(parse_line(module, need)?);
                continue;
            }
        };
        // Sections stand in the order of a boot, each once.
        if next <= need {
            return Err(ModuleError::Line { line: line.to_owned() });
        }
        need = next;
    }
    Ok(entries)
}

fn parse_line(line: &str, need: Need) -> Result<Listed<'_>, ModuleError> {
    let (path, optional) = line.strip_prefix('?').map_or((line, false), |path| (path, true));
    let stays_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || path.starts_with('[') || !stays_inside || path.contains(char::is_whitespace) {
        return Err(ModuleError::Line { line: line.to_owned() });
    }
    Ok(Listed { path, optional, need })
}

/// A kernel module did not load.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The list cannot be read.
    #[error("/lib/modules/order cannot be read ({source})")]
    List {
        /// Why.
        source: io::Error,
    },
    /// A line of the list is not a path below `/lib/modules`.
    #[error("/lib/modules/order names {line:?}, which is no path below it")]
    Line {
        /// The line.
        line: String,
    },
    /// The kernel did not take a module that is needed.
    #[error("the kernel does not take the module {path} ({source})")]
    Refused {
        /// The module, relative to `/lib/modules`.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
}

reason_codes! {
    /// A kernel module did not load.
    pub enum ModuleCode {
        /// The list of modules cannot be read, or names what is none.
        List = "module-list-invalid":
            "build the initramfs again";
        /// The kernel did not take a module that is needed.
        Refused = "module-refused":
            "build the initramfs for the kernel that is booted, or mark the module optional with a leading question mark";
    }
}

impl ModuleError {
    /// The stable reason code.
    pub fn code(&self) -> ModuleCode {
        match self {
            Self::List { .. } | Self::Line { .. } => ModuleCode::List,
            Self::Refused { .. } => ModuleCode::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(order: &str) -> std::path::PathBuf {
        let id = u64::from_ne_bytes(super::super::entropy::bytes());
        let directory = std::env::temp_dir().join(format!("latchkey-modules-{id:016x}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("order"), order).unwrap();
        directory
    }

    fn load(order: &str, insert: impl FnMut(&Path) -> io::Result<()>) -> Result<Loaded, ModuleError> {
        let directory = directory_with(order);
        let result = load_from(&directory, Need::Devices, insert);
        std::fs::remove_dir_all(directory).unwrap();
        result
    }

    #[test]
    fn modules_are_loaded_in_the_written_order() {
        let mut seen = Vec::new();
        let loaded = load("# made by us\nvirtio.ko\nnet/virtio_net.ko # needs virtio\n\n?tsm.ko\n", |path| {
            seen.push(path.file_name().unwrap().to_owned());
            Ok(())
        });
        assert_eq!(loaded.unwrap(), Loaded { loaded: 3, skipped: vec![] });
        assert_eq!(seen, ["virtio.ko", "virtio_net.ko", "tsm.ko"]);
    }

    #[test]
    fn a_module_that_is_there_already_is_no_failure() {
        let loaded = load("a.ko\n", |_| Err(io::Error::from_raw_os_error(17)));
        assert_eq!(loaded.unwrap().loaded, 1);
    }

    #[test]
    fn only_optional_modules_may_fail() {
        let no_device = || Err(io::Error::from_raw_os_error(19));
        let loaded = load("?sev-guest.ko\n", |_| no_device()).unwrap();
        assert_eq!((loaded.loaded, loaded.skipped.len()), (0, 1));
        let error = load("sev-guest.ko\nnext.ko\n", |path| {
            assert!(path.ends_with("sev-guest.ko"), "nothing is loaded after a failure");
            no_device()
        });
        assert_eq!(error.unwrap_err().code().as_str(), "module-refused");
    }

    #[test]
    fn a_list_can_not_name_files_outside_its_directory() {
        for line in ["/etc/x.ko", "../x.ko", "a/../../x.ko", "?", "a b.ko", "./"] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.code().as_str(), "module-list-invalid");
        }
    }

    #[test]
    fn each_section_is_loaded_by_itself() {
        let order = "virtio.ko\n[root]\ndm_mod.ko\ndm_verity.ko\n[state-disk] # later\n?xts.ko\n";
        let directory = directory_with(order);
        let load = |need| {
            let mut seen = Vec::new();
            load_from(&directory, need, |path| {
                seen.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                Ok(())
            })
            .unwrap();
            seen.join(" ")
        };
        let sections = [Need::Devices, Need::Root, Need::StateDisk].map(load);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(sections, ["virtio.ko", "dm_mod.ko dm_verity.ko", "xts.ko"]);
        // A list without them is of modules that are needed at once.
        assert!(parse("virtio.ko\nxts.ko").unwrap().iter().all(|entry| entry.need == Need::Devices));
    }

    #[test]
    fn sections_that_are_unknown_twice_or_out_of_order_are_refused() {
        for list in ["[else]\na.ko", "[root]\n[root]", "[state-disk]\n[root]", "[Root]", "?[root]", "[root", "[]"] {
            assert_eq!(parse(list).expect_err(list).code().as_str(), "module-list-invalid");
        }
    }

    #[test]
    fn a_missing_list_means_no_modules() {
        assert_eq!(load_from(Path::new("/nonexistent"), Need::Devices, |_| Ok(())).unwrap(), Loaded::default());
    }

    #[test]
    fn an_endless_list_is_refused() {
        let error = load(&"a.ko\n".repeat(20_000), |_| Ok(())).unwrap_err();
        assert_eq!(error.code().as_str(), "module-list-invalid");
    }
}
