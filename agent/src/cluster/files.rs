//! Files that only root reads.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use latchkey_durable_file::{Existing, put, read_plain};
use latchkey_keys::SecretVec;

use super::{StepCode, StepError};

/// A file that is gone when this value is, however the step ends.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Writes the file.
    pub(super) fn write(path: PathBuf, data: &[u8]) -> Result<Self, StepError> {
        let scratch = Self(path);
        write(&scratch.0, data)?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // In memory, and only root reads it: should it stay, it ends with this boot.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a file with mode 0600, in directories of 0700 where there are none yet; a crash leaves the old one or the new one, and
/// nothing else that the kubelet would take for a manifest: it passes over names that begin with a dot.
pub(crate) fn write(path: &Path, data: &[u8]) -> Result<(), StepError> {
    let write = || {
        let directory = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        put(path, 0o600, data, Existing::Replace)
    };
    write().map_err(|e| error(path, &e))
}

/// Removes a file, durably.
pub(crate) fn remove(path: &Path) -> Result<(), StepError> {
    latchkey_durable_file::remove(path).map(drop).map_err(|e| error(path, &e))
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: usize) -> Result<SecretVec, StepError> {
    let read = || Ok(read_plain(&File::open(path)?, limit)?.into());
    read().map_err(|e| error(path, &e))
}

pub(crate) fn error(path: &Path, error: &std::io::Error) -> StepError {
    StepError::new(StepCode::File, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_and_its_directories_are_for_root_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let path = directory.join("pki/etcd/ca.key");
        write(&path, b"key").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let victim = directory.join("victim");
        std::fs::write(&victim, "theirs").unwrap();
        symlink(&victim, directory.join(".file.new")).unwrap();
        symlink(&victim, directory.join("file")).unwrap();
        write(&directory.join("file"), b"ours").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"theirs");
        assert_eq!(read(&directory.join("file"), 4).unwrap().expose(), b"ours");
        assert_eq!(read(&directory.join("file"), 3).unwrap_err().code, StepCode::File);
    }

    #[test]
    fn a_scratch_file_goes_with_its_owner() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let scratch = Scratch::write(directory.join("config"), b"token").unwrap();
        assert!(scratch.path().exists());
        drop(scratch);
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    }
}
