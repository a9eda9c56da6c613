//! What root does in a directory that belongs to somebody else: as that user, with no way back.
//!
//! The directory of a service is the service's: its user may put links there, or move things away, while root works. So the work is
//! done by a thread that has become this user for good, and ends with it. What else a command reads and writes is the operator's own,
//! and stays so.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::{io, thread};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::codes::CommandCode;
use crate::error::CommandError;

/// Does the work as the owner of this directory, if root would do it otherwise. It may use nothing that only root can.
pub(crate) fn as_owner_of<T: Send>(
    directory: &Path,
    work: impl FnOnce() -> Result<T, CommandError> + Send,
) -> Result<T, CommandError> {
    as_owner(directory, || fs::metadata(directory), work)
}

/// The same as the owner of what has this name in such a directory, be it a link: for a file that earlier releases made as root.
pub(crate) fn as_owner_of_file<T: Send>(
    path: &Path,
    work: impl FnOnce() -> Result<T, CommandError> + Send,
) -> Result<T, CommandError> {
    as_owner(path, || fs::symlink_metadata(path), work)
}

fn as_owner<T: Send>(
    path: &Path,
    about: impl FnOnce() -> io::Result<fs::Metadata>,
    work: impl FnOnce() -> Result<T, CommandError> + Send,
) -> Result<T, CommandError> {
    let failed = |error: io::Error| {
        let what = format!("cannot work as the owner of {}", path.display());
        CommandError::local(CommandCode::DirectoryUnusable, what).because(error.to_string())
    };
    if !geteuid().is_root() {
        return work();
    }
    let about = about().map_err(failed)?;
    if about.uid() == 0 {
        return work();
    }
    let (user, group) = (Uid::from_raw(about.uid()), Gid::from_raw(about.gid()));
    let work = || become_for_good(user, group).map_err(failed).and_then(|()| work());
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Of this thread alone: the kernel keeps users by thread. With the last user id its capabilities go.
fn become_for_good(user: Uid, group: Gid) -> io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getgroups;
    use std::os::unix::fs::chown;

    #[test]
    fn what_root_does_in_anothers_directory_is_done_by_that_one_who_cannot_become_root_again() {
        if !geteuid().is_root() {
            latchkey_test_support::skip("only root can give directories away");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        chown(directory.path(), Some(4711), Some(4712)).unwrap();
        let path = directory.path().join("file");
        // As a login of root has it; of this thread alone.
        set_thread_groups(&[Gid::ROOT]).unwrap();
        as_owner_of(directory.path(), || {
            fs::write(&path, "").unwrap();
            assert_eq!(getgroups().unwrap(), []);
            assert!(set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_err());
            assert!(set_thread_groups(&[Gid::ROOT]).is_err());
            Ok(())
        })
        .unwrap();
        let about = fs::metadata(&path).unwrap();
        assert_eq!((about.uid(), about.gid()), (4711, 4712));
        assert!(geteuid().is_root(), "the rest of the command is the operator's");
    }
}
