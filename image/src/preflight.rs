//! Whether a root has what the agent will look for in it: what would be found at boot is found when the image is built.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use latchkey_node_config::{ClusterStep, Config, Writable};

use crate::systemd::{self, Addition};
use crate::tree::{Entry, EntryKind, Tree};

/// Where stage 1 has mounted what it hands over.
const MOUNT_POINTS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// What the agent will look for in the root, by its command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RootDemands {
    /// The program that takes over (`latchkey.init`).
    pub init: PathBuf,
    /// The program that makes it a member, where the image names one (`latchkey.command`).
    pub command: Option<PathBuf>,
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
        let command = match &config.cluster_step {
            Some(ClusterStep::Command(program)) => Some(program.clone()),
            Some(ClusterStep::Kubeadm) | None => None,
        };
        Self { init: config.init.clone(), command, directories }
    }
}

/// What a root lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// The program that takes over is not there.
    #[error("it has no {}, the program that takes over", .0.display())]
    NoInit(PathBuf),
    /// It is no file, or may not be executed.
    #[error("{}, the program that takes over, is no file that may be executed", .0.display())]
    InitNotExecutable(PathBuf),
    /// The program that makes the machine a member is not there.
    #[error("it has no {}, the program that makes the machine a member", .0.display())]
    NoCommand(PathBuf),
    /// It is no file, or may not be executed.
    #[error("{}, the program that makes the machine a member, is no file that may be executed", .0.display())]
    CommandNotExecutable(PathBuf),
    /// A file system is mounted there, and it is no directory, or behind a link.
    #[error("{} must be a directory, with no link on the way: a file system is mounted there at boot", .0.display())]
    NoDirectory(PathBuf),
    /// A file for systemd that it is said to have is not there.
    #[error("it has no /{0}, though \"in_root\": true says so")]
    Lacks(String),
    /// Something else lies there.
    #[error("its /{0} is not the one that it must have, though \"in_root\": true says so")]
    Differs(String),
}

impl PreflightError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoInit(_) => {
                "put the program into the root, or name another with latchkey.init=PATH in \"command_line\""
            }
            Self::NoCommand(_) => {
                "put the program into the root, or name another with latchkey.command=PATH in \"command_line\""
            }
            Self::Lacks(_) | Self::Differs(_) => {
                "put all files that `latchkey image units` writes with this configuration and this agent into the root, as they are"
            }
            _ => return None,
        })
    }
}

/// Whether the root has it all.
pub(crate) fn check(tree: &Tree, demands: &RootDemands) -> Result<(), PreflightError> {
    if !executable(tree, &demands.init).ok_or_else(|| PreflightError::NoInit(demands.init.clone()))? {
        return Err(PreflightError::InitNotExecutable(demands.init.clone()));
    }
    if let Some(command) = &demands.command
        && !executable(tree, command).ok_or_else(|| PreflightError::NoCommand(command.clone()))?
    {
        return Err(PreflightError::CommandNotExecutable(command.clone()));
    }
    let mut directories = MOUNT_POINTS.iter().map(Path::new).chain(demands.directories.iter().map(PathBuf::as_path));
    let plain = |directory: &&Path| {
        let path = directory.strip_prefix("/").unwrap_or(directory).as_os_str().as_bytes();
        !matches!(tree.at(path), Some(Entry { what: EntryKind::Directory, .. }))
    };
    match directories.find(plain) {
        Some(lacking) => Err(PreflightError::NoDirectory(lacking.into())),
        None => Ok(()),
    }
}

/// Whether this is a program, through all links of the root; `None` if it is not there.
fn executable(tree: &Tree, path: &Path) -> Option<bool> {
    let (_, entry) = tree.find(path.as_os_str().as_bytes())?;
    Some(matches!(entry, Entry { mode, what: EntryKind::File(..) } if mode & 0o111 != 0))
}

/// Whether the root has these already, at just these paths; the first that it lacks is the error. The content of files must
/// have been read.
pub(crate) fn has(tree: &Tree, files: &[Addition]) -> Result<(), PreflightError> {
    for Addition { path, what } in files {
        let Some(entry) = tree.linked(path.as_bytes()) else { return Err(PreflightError::Lacks(path.clone())) };
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
            return Err(PreflightError::Differs(path.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn judged(more: &[(&str, &str)], init: &str, directories: &[&str]) -> Result<(), PreflightError> {
        let base = [("dev", "/"), ("proc", "/"), ("run", "/"), ("sys", "/"), ("usr/lib/systemd/systemd", "x")];
        let entries: Vec<_> = base.into_iter().chain(more.iter().copied()).collect();
        let directories = directories.iter().map(PathBuf::from).collect();
        check(&tree(&entries), &RootDemands { init: init.into(), command: None, directories })
    }

    #[test]
    fn an_init_behind_links_of_the_root_is_found_and_one_outside_is_not() {
        assert_eq!(judged(&[("sbin/init", "-> ../usr/lib/systemd/systemd")], "/sbin/init", &[]), Ok(()));
        assert_eq!(judged(&[("sbin/init", "-> /usr/lib/systemd/systemd")], "/sbin/init", &[]), Ok(()));
        let no = |path: &str| Err(PreflightError::NoInit(path.into()));
        assert_eq!(judged(&[], "/sbin/init", &[]), no("/sbin/init"));
        // There on this machine, not in the root.
        assert_eq!(judged(&[("sbin/init", "-> /bin/sh")], "/sbin/init", &[]), no("/sbin/init"));
        assert_eq!(judged(&[], "/usr/lib", &[]), Err(PreflightError::InitNotExecutable("/usr/lib".into())));
        let mut plain = tree(&[("sbin/init", "x")]);
        plain.insert(b"sbin/init".to_vec(), Entry { mode: 0o644, what: EntryKind::File(1, None) });
        let demands = RootDemands { init: "/sbin/init".into(), ..RootDemands::default() };
        assert_eq!(check(&plain, &demands), Err(PreflightError::InitNotExecutable("/sbin/init".into())));
    }

    #[test]
    fn every_place_that_is_mounted_on_is_a_directory_of_the_root_itself() {
        let init = "/usr/lib/systemd/systemd";
        assert_eq!(judged(&[("var/lib/x", "/")], init, &["/var/lib/x"]), Ok(()));
        let lacking = |path: &str| Err(PreflightError::NoDirectory(path.into()));
        assert_eq!(judged(&[("var", "-> run")], init, &["/var"]), lacking("/var"));
        assert_eq!(judged(&[], init, &["/var"]), lacking("/var"));
        assert_eq!(judged(&[("sys", "x")], init, &[]), lacking("/sys"));
        let bare = tree(&[("init", "x")]);
        let demands = RootDemands { init: "/init".into(), ..RootDemands::default() };
        assert_eq!(check(&bare, &demands), lacking("/dev"));
    }
}
