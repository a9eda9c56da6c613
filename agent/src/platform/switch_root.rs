//! The operating system takes over, and the initramfs is gone.
//!
//! The steps, in order; until the third nothing is changed that cannot be undone by a reboot:
//!
//! 1. the new root is a mount point of its own and has the program that takes over;
//! 2. `/` is a RAM file system (its magic number says so) with an `/init`, so it is an initramfs and nobody's data;
//! 3. `/dev`, `/proc`, `/sys` and `/run` move below the new root, or, where that has no such directory, away;
//! 4. everything on the old root's own file system is deleted, which gives its memory back; other file systems are
//!    never entered;
//! 5. the new root moves to `/`, becomes the root of this process, and the program is executed.

use std::convert::Infallible;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_move, unmount};

use super::mounts::NEW_ROOT;
use super::pid1::Pid1;
use super::root::SealedRoot;
use latchkey_reason::reason_codes;

const MOVED: [&str; 4] = ["dev", "proc", "sys", "run"];

/// Linux `include/uapi/linux/magic.h`: the initramfs is one of these.
const RAMFS_MAGIC: u64 = 0x8584_58f6;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// An initramfs has a few levels; deeper means that something is wrong.
const MAX_DEPTH: u8 = 32;

/// Switches to the operating system mounted at [`NEW_ROOT`] and executes `init`, a path in it. Returns only if that
/// failed; what is left then is good for a reboot only.
pub fn switch_root(pid1: Pid1, _: &SealedRoot, init: &Path) -> Result<Infallible, SwitchRootError> {
    let new_root = Path::new(NEW_ROOT);
    let (root, new) = (open(Path::new("/"))?, open(new_root)?);
    check_new_root(&root, &new, init)?;
    check_initramfs(&root)?;
    super::console::give_back(pid1);
    move_mounts(&new, new_root)?;
    // Memory that is not given back is a pity and no reason to stop here.
    let freed = empty(&root, MAX_DEPTH);
    drop(root);
    enter(&new, new_root).map_err(|source| SwitchRootError::Switch { source })?;
    if let Err(source) = freed {
        super::console::line("hand-over", &format!("warning: part of the initramfs stays in memory ({source})"));
    }
    let source = Command::new(init).current_dir("/").exec();
    Err(SwitchRootError::Exec { init: init.display().to_string(), source })
}

fn open(path: &Path) -> Result<OwnedFd, SwitchRootError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| SwitchRootError::NewRoot { problem: "it cannot be opened", source: e.into() })
}

fn check_new_root(root: &OwnedFd, new: &OwnedFd, init: &Path) -> Result<(), SwitchRootError> {
    let failed = |problem, source: Errno| SwitchRootError::NewRoot { problem, source: source.into() };
    let device = |fd: &OwnedFd| fstat(fd).map(|stat| stat.st_dev).map_err(|e| failed("it cannot be examined", e));
    if device(root)? == device(new)? {
        return Err(failed("nothing is mounted there", Errno::NOTDIR));
    }
    // Links on the way lead where they will lead after the switch, and not into the initramfs. One at the end may lead to a
    // file that exists only then; exec judges it.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stat = openat2(new, init, flags, Mode::empty(), ResolveFlags::IN_ROOT)
        .and_then(fstat)
        .map_err(|e| failed("the program that takes over is not there", e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Ok(()),
        FileType::RegularFile if stat.st_mode & 0o111 != 0 => Ok(()),
        _ => Err(failed("the program that takes over cannot be executed", Errno::ACCESS)),
    }
}

fn check_initramfs(root: &OwnedFd) -> Result<(), SwitchRootError> {
    let magic = fstatfs(root).map_or(0, |fs| fs.f_type.cast_unsigned());
    let has_init = statat(root, "init", AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if has_init && matches!(magic, RAMFS_MAGIC | TMPFS_MAGIC) {
        Ok(())
    } else {
        Err(SwitchRootError::NotInitramfs { magic })
    }
}

fn move_mounts(new: &OwnedFd, new_root: &Path) -> Result<(), SwitchRootError> {
    for name in MOVED {
        let old = Path::new("/").join(name);
        let is_directory = statat(new, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        let moved =
            if is_directory { mount_move(&old, new_root.join(name)) } else { unmount(&old, UnmountFlags::DETACH) };
        match moved {
            // Not mounted at all: nothing to do.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(source) => return Err(SwitchRootError::Mounts { name, source: source.into() }),
        }
    }
    Ok(())
}

/// Deletes what is in a directory, as far as it lies on the directory's own file system.
fn empty(directory: impl AsFd, depth: u8) -> io::Result<()> {
    let deeper = depth.checked_sub(1).ok_or(Errno::LOOP)?;
    let device = fstat(&directory)?.st_dev;
    // The list is made first: deleting while reading a directory may skip entries.
    let entries: Result<Vec<_>, _> = Dir::read_from(&directory)?.collect();
    for entry in entries? {
        let name = entry.file_name();
        if name != c"." && name != c".." {
            remove(&directory, name, device, deeper)?;
        }
    }
    Ok(())
}

fn remove(directory: impl AsFd, name: &CStr, device: u64, depth: u8) -> io::Result<()> {
    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_dev != device {
        return Ok(());
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(unlinkat(&directory, name, AtFlags::empty())?);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    empty(openat(&directory, name, flags, Mode::empty())?, depth)?;
    match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
        // A mount point stays, with the directories that lead to it.
        Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(()),
        result => Ok(result?),
    }
}

/// The move goes over the top of `/`, which a pivot cannot do: the initramfs cannot be unmounted.
fn enter(new: &OwnedFd, new_root: &Path) -> io::Result<()> {
    rustix::process::fchdir(new)?;
    mount_move(new_root, "/")?;
    rustix::process::chroot(OsStr::new("."))?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// The operating system could not take over.
#[derive(Debug, thiserror::Error)]
pub enum SwitchRootError {
    /// The new root is not one.
    #[error("the root file system of the operating system is not usable, {problem} ({source})")]
    NewRoot {
        /// What is wrong.
        problem: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// `/` is not an initramfs, so nothing is deleted.
    #[error("/ is no initramfs (file system {magic:#x})")]
    NotInitramfs {
        /// The magic number of the file system.
        magic: u64,
    },
    /// A file system of the kernel could not move.
    #[error("/{name} cannot move to the operating system ({source})")]
    Mounts {
        /// Which.
        name: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The new root could not become `/`.
    #[error("the root cannot be switched ({source})")]
    Switch {
        /// What the kernel said.
        source: io::Error,
    },
    /// The program that takes over did not start.
    #[error("{init} does not start ({source})")]
    Exec {
        /// Its path.
        init: String,
        /// What the kernel said.
        source: io::Error,
    },
}

reason_codes! {
    /// The operating system could not take over.
    pub enum SwitchRootCode {
        /// The new root is not one.
        NewRoot = "new-root-unusable":
            "check latchkey.init and what the image was built from";
        /// `/` is no initramfs, so nothing is deleted.
        NotInitramfs = "not-an-initramfs":
            "start the agent as /init of an initramfs";
        /// A file system of the kernel could not move.
        Mounts = "mounts-not-moved":
            "give the root an empty directory of that name";
        /// The new root could not become `/`.
        Switch = "switch-root-failed":
            "let the kernel unpack the initramfs itself";
        /// The program that takes over did not start.
        Exec = "init-not-started":
            "check latchkey.init and that program's own needs";
    }
}

impl SwitchRootError {
    /// The stable reason code.
    pub fn code(&self) -> SwitchRootCode {
        match self {
            Self::NewRoot { .. } => SwitchRootCode::NewRoot,
            Self::NotInitramfs { .. } => SwitchRootCode::NotInitramfs,
            Self::Mounts { .. } => SwitchRootCode::Mounts,
            Self::Switch { .. } => SwitchRootCode::Switch,
            Self::Exec { .. } => SwitchRootCode::Exec,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn directory() -> std::path::PathBuf {
        let id = u64::from_ne_bytes(super::super::entropy::bytes());
        let directory = std::env::temp_dir().join(format!("latchkey-handover-{id:016x}"));
        fs::create_dir(&directory).unwrap();
        directory
    }

    #[test]
    fn emptying_follows_no_link_out_of_the_tree() {
        let (tree, outside) = (directory(), directory());
        fs::write(outside.join("precious"), "data").unwrap();
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).unwrap();
        std::os::unix::fs::symlink(outside.join("precious"), tree.join("link")).unwrap();
        empty(open(&tree).unwrap(), MAX_DEPTH).unwrap();
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "data");
        fs::remove_dir(tree).unwrap();
        fs::remove_dir_all(outside).unwrap();
    }

    #[test]
    fn emptying_stops_at_a_bottomless_tree() {
        let tree = directory();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 40).collect();
        fs::create_dir_all(tree.join(deep)).unwrap();
        assert!(empty(open(&tree).unwrap(), MAX_DEPTH).is_err());
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn a_disk_as_root_is_never_emptied() {
        // The root of a machine that runs tests is no initramfs with an /init.
        if !Path::new("/init").exists() {
            let error = check_initramfs(&open(Path::new("/")).unwrap()).unwrap_err();
            assert_eq!(error.code().as_str(), "not-an-initramfs");
        }
    }

    #[test]
    fn a_new_root_must_be_mounted_and_have_a_program() {
        let root = open(Path::new("/")).unwrap();
        let error = check_new_root(&root, &open(Path::new("/")).unwrap(), Path::new("/bin/sh")).unwrap_err();
        assert_eq!(error.code().as_str(), "new-root-unusable");
        let proc = open(Path::new("/proc")).unwrap();
        for (init, usable) in [("/self", true), ("/version", false), ("/missing", false), ("/sys", false)] {
            assert_eq!(check_new_root(&root, &proc, Path::new(init)).is_ok(), usable, "{init}");
        }
    }

    /// `/sbin` of the root is a link to its own `/usr/sbin`, and not to that of whoever looks.
    #[test]
    fn links_on_the_way_to_the_program_stay_in_the_new_root() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("usr/sbin")).unwrap();
        std::fs::copy("/bin/true", path("usr/sbin/only-here")).unwrap();
        std::os::unix::fs::symlink("/usr/sbin", path("sbin")).unwrap();
        std::os::unix::fs::symlink("/etc", path("outside")).unwrap();
        let (root, new) = (open(Path::new("/")).unwrap(), open(directory.path()).unwrap());
        check_new_root(&root, &new, Path::new("/sbin/only-here")).unwrap();
        assert_eq!(
            check_new_root(&root, &new, Path::new("/outside/passwd")).unwrap_err().code().as_str(),
            "new-root-unusable"
        );
    }
}
