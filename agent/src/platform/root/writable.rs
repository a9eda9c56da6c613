//! What can be written on the read-only root: in memory, by `latchkey.writable`.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::platform::mounts::NEW_ROOT;
use crate::platform::pid1::Pid1;
use latchkey_node_config::Writable;

/// Where the root is mounted when an overlay lies over it.
pub(super) const LOWER: &str = "/root-lower";
/// The memory that takes the changes.
const UPPER: &str = "/root-upper";

/// What did not work.
#[derive(Debug)]
pub(super) struct WritableError {
    pub(super) what: String,
    pub(super) source: io::Error,
}

/// Makes writable what the configuration says, on the root mounted at [`NEW_ROOT`], or at [`LOWER`] for an overlay.
pub(super) fn make(_: Pid1, writable: &Writable) -> Result<(), WritableError> {
    match writable {
        Writable::None => Ok(()),
        Writable::Overlay => {
            overlay().map_err(|source| WritableError { what: "laying memory over the root".to_owned(), source })
        }
        Writable::Tmpfs(directories) => directories.iter().try_for_each(|directory| {
            let what = || format!("mounting memory at {} of the root", directory.display());
            memory_at(directory).map_err(|source| WritableError { what: what(), source })
        }),
    }
}

fn overlay() -> io::Result<()> {
    fs::create_dir(UPPER)?;
    mount("tmpfs", UPPER, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, Some(c"mode=0755"))?;
    let (upper, work) = (Path::new(UPPER).join("upper"), Path::new(UPPER).join("work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    // The overlay's own root directory is that of the upper layer.
    let mode = fs::metadata(LOWER)?.permissions().mode() & 0o7777;
    fs::set_permissions(&upper, Permissions::from_mode(mode))?;
    fs::create_dir_all(NEW_ROOT)?;
    let options = c"lowerdir=/root-lower,upperdir=/root-upper/upper,workdir=/root-upper/work";
    mount("overlay", NEW_ROOT, "overlay", MountFlags::NODEV, Some(options))?;
    // The overlay has its layers in private; nobody else needs a way to them.
    for layer in [UPPER, LOWER] {
        unmount(layer, UnmountFlags::DETACH)?;
        fs::remove_dir(layer)?;
    }
    Ok(())
}

/// Mounts an empty file system in memory over a directory of the root, with that directory's owner and permissions.
fn memory_at(directory: &Path) -> io::Result<()> {
    let place = directory_in_root(Path::new(NEW_ROOT), directory)?;
    let stat = fstat(&place)?;
    let options = format!("mode={:o},uid={},gid={}\0", stat.st_mode & 0o7777, stat.st_uid, stat.st_gid);
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // Through the descriptor, so that the place is the one that was looked at.
    let place = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    Ok(mount("tmpfs", place, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, Some(options))?)
}

/// A directory of the root. No link on the way: one to `/run` would lead out of the root as it lies now.
fn directory_in_root(root: &Path, directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    Ok(openat2(root, directory, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_root_does_not_lead_memory_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("var/lib")).unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/run", root.path().join("var/run")).unwrap();
        std::os::unix::fs::symlink("../../..", root.path().join("up")).unwrap();
        let find = |path: &str| directory_in_root(root.path(), Path::new(path));
        assert!(find("/var/lib").is_ok());
        for path in ["/var/run", "/up", "/up/etc", "/file", "/missing"] {
            assert!(find(path).is_err(), "{path}");
        }
        // Seen from the root, there is nothing above it.
        let above = fstat(find("/../../var").unwrap()).unwrap().st_ino;
        assert_eq!(above, fstat(find("/var").unwrap()).unwrap().st_ino);
    }
}
