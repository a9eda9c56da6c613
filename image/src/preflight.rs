//! Whether a root has what the agent will look for in it: what would be found at boot is found when the image is built.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use latchkey_node_config::{Config, Writable};

use crate::systemd::{self, Addition};
use crate::tree::{Entry, EntryKind, Tree};

/// Where stage 1 has mounted what it hands over.
const MOUNT_POINTS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// What the agent will look for in the root, by its command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RootDemands {
    /// The program that takes over (`latchkey.init`).
    pub init: PathBuf,
    /// Directories that get memory of their own (`latchkey.writable=tmpfs:`).
    pub directories: Vec<PathBuf>,
}

impl RootDemands {
    /// What a node with this configuration looks for.
    pub(crate) fn of(config: &Config) -> Self {
        let directories = match &config.writable {
            Writable::Tmpfs(directories) => directories.clone(),
            Writable::Overlay | Writable::None => Vec::new(),
        };
        Self { init: config.init.clone(), directories }
    }
}

/// What a root lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// The program that takes over is not there.
    NoInit(PathBuf),
    /// It is no file, or may not be executed.
    InitNotExecutable(PathBuf),
    /// A file system is mounted there, and it is no directory, or behind a link.
    NoDirectory(PathBuf),
    /// A file for systemd that it is said to have is not there.
    Lacks(String),
    /// Something else lies there.
    Differs(String),
}

/// What to do when `"in_root"` promises too much.
const IN_ROOT: &str = "though \"in_root\": true says so: put all files that `latchkey image units` writes with this configuration and this agent into it, as they are";

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInit(path) => write!(
                f,
                "it has no {}, the program that takes over; name another with latchkey.init=PATH in \"command_line\"",
                path.display()
            ),
            Self::InitNotExecutable(path) => {
                write!(f, "{}, the program that takes over, is no file that may be executed", path.display())
            }
            Self::NoDirectory(path) => write!(
                f,
                "{} must be a directory, with no link on the way: a file system is mounted there at boot",
                path.display()
            ),
            Self::Lacks(path) => write!(f, "it has no /{path}, {IN_ROOT}"),
            Self::Differs(path) => write!(f, "its /{path} is not the one that it must have, {IN_ROOT}"),
        }
    }
}

impl std::error::Error for Unfit {}

/// Whether the root has it all.
pub(crate) fn check(tree: &Tree, demands: &RootDemands) -> Result<(), Unfit> {
    let (_, init) =
        tree.find(demands.init.as_os_str().as_bytes()).ok_or_else(|| Unfit::NoInit(demands.init.clone()))?;
    if !matches!(init, Entry { mode, what: EntryKind::File(..) } if mode & 0o111 != 0) {
        return Err(Unfit::InitNotExecutable(demands.init.clone()));
    }
    let mut directories = MOUNT_POINTS.iter().map(Path::new).chain(demands.directories.iter().map(PathBuf::as_path));
    let plain = |directory: &&Path| {
        let path = directory.strip_prefix("/").unwrap_or(directory).as_os_str().as_bytes();
        !matches!(tree.at(path), Some(Entry { what: EntryKind::Directory, .. }))
    };
    match directories.find(plain) {
        Some(lacking) => Err(Unfit::NoDirectory(lacking.into())),
        None => Ok(()),
    }
}

/// Whether the root has these already, at just these paths; the first that it lacks is the error. The content of files must
/// have been read.
pub(crate) fn has(tree: &Tree, files: &[Addition]) -> Result<(), Unfit> {
    for Addition { path, what } in files {
        let Some(entry) = tree.linked(path.as_bytes()) else { return Err(Unfit::Lacks(path.clone())) };
        let same = match (what, &entry.what) {
            (systemd::AdditionKind::Directory, EntryKind::Directory) => true,
            (systemd::AdditionKind::Link(target), EntryKind::Link(found)) => target.as_bytes() == found,
            (systemd::AdditionKind::File(mode, content), EntryKind::File(size, found)) => {
                // One without content is the same wherever it was read.
                let equal = content.is_empty() && *size == 0 || found.as_ref() == Some(content);
                equal && mode & 0o111 == entry.mode & 0o111
            }
            _ => false,
        };
        if !same {
            return Err(Unfit::Differs(path.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn judged(more: &[(&str, &str)], init: &str, directories: &[&str]) -> Result<(), Unfit> {
        let base = [("dev", "/"), ("proc", "/"), ("run", "/"), ("sys", "/"), ("usr/lib/systemd/systemd", "x")];
        let entries: Vec<_> = base.into_iter().chain(more.iter().copied()).collect();
        let directories = directories.iter().map(PathBuf::from).collect();
        check(&tree(&entries), &RootDemands { init: init.into(), directories })
    }

    #[test]
    fn an_init_behind_links_of_the_root_is_found_and_one_outside_is_not() {
        assert_eq!(judged(&[("sbin/init", "-> ../usr/lib/systemd/systemd")], "/sbin/init", &[]), Ok(()));
        assert_eq!(judged(&[("sbin/init", "-> /usr/lib/systemd/systemd")], "/sbin/init", &[]), Ok(()));
        let no = |path: &str| Err(Unfit::NoInit(path.into()));
        assert_eq!(judged(&[], "/sbin/init", &[]), no("/sbin/init"));
        // There on this machine, not in the root.
        assert_eq!(judged(&[("sbin/init", "-> /bin/sh")], "/sbin/init", &[]), no("/sbin/init"));
        assert_eq!(judged(&[], "/usr/lib", &[]), Err(Unfit::InitNotExecutable("/usr/lib".into())));
        let mut plain = tree(&[("sbin/init", "x")]);
        plain.insert(b"sbin/init".to_vec(), Entry { mode: 0o644, what: EntryKind::File(1, None) });
        let demands = RootDemands { init: "/sbin/init".into(), directories: Vec::new() };
        assert_eq!(check(&plain, &demands), Err(Unfit::InitNotExecutable("/sbin/init".into())));
    }

    #[test]
    fn every_place_that_is_mounted_on_is_a_directory_of_the_root_itself() {
        let init = "/usr/lib/systemd/systemd";
        assert_eq!(judged(&[("var/lib/x", "/")], init, &["/var/lib/x"]), Ok(()));
        let lacking = |path: &str| Err(Unfit::NoDirectory(path.into()));
        assert_eq!(judged(&[("var", "-> run")], init, &["/var"]), lacking("/var"));
        assert_eq!(judged(&[], init, &["/var"]), lacking("/var"));
        assert_eq!(judged(&[("sys", "x")], init, &[]), lacking("/sys"));
        let bare = tree(&[("init", "x")]);
        assert_eq!(check(&bare, &RootDemands { init: "/init".into(), directories: Vec::new() }), lacking("/dev"));
    }
}
