//! Files that a kubelet mounts into a pod: links to links, which the kubelet changes as a whole, and owned by root. So they are held
//! to other rules than files on a host.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use zeroize::Zeroizing;

/// Reads a file of a mounted Secret: at most `limit` bytes, a regular file behind whatever links, and not open to everybody: give its
/// volume a `defaultMode` of 0440 or less.
///
/// # Errors
/// A sentence that names the path and what is wrong with it.
pub fn read_mounted(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    read(path, limit, 0o007, "may be read or written by everybody: give the volume a `defaultMode` of 0440 or less")
}

/// The same of a service account's files, which a kubelet makes readable for every user of the pod where it knows none.
pub(crate) fn read_service_account(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    read(path, limit, 0o002, "may be written by everybody")
}

fn read(path: &Path, limit: usize, refused: u32, why: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let said = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    // Opening a pipe must not wait for a writer: it is refused.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(|error| said(&error))?;
    let metadata = file.metadata().map_err(|error| said(&error))?;
    if !metadata.is_file() {
        return Err(said(&"it is no regular file"));
    }
    if metadata.mode() & refused != 0 {
        return Err(said(&format_args!("it {why}")));
    }
    // Of its final size at once: a vector that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit.saturating_add(1)));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|error| said(&error))?;
    if bytes.len() > limit { Err(said(&format_args!("it is larger than {limit} bytes"))) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_mounted_secret_is_read_through_its_links_and_refused_where_everybody_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let (data, link) = (directory.path().join("data"), directory.path().join("password"));
        fs::write(&data, "secret").unwrap();
        symlink("data", &link).unwrap();
        for (mode, limit, secret, account) in
            [(0o440, 6, true, true), (0o400, 5, false, false), (0o444, 6, false, true), (0o446, 6, false, false)]
        {
            fs::set_permissions(&data, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_mounted(&link, limit).is_ok(), secret, "{mode:o}");
            assert_eq!(read_service_account(&link, limit).is_ok(), account, "{mode:o}");
        }
        fs::set_permissions(&data, Permissions::from_mode(0o400)).unwrap();
        assert_eq!(read_mounted(&link, 6).unwrap().as_slice(), b"secret");
        assert!(read_mounted(directory.path(), 6).unwrap_err().contains("no regular file"));
        assert!(read_mounted(&directory.path().join("none"), 6).unwrap_err().contains("none"));
    }
}
