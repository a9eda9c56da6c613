//! The directory of one test. It goes away with its last user; logs stay if the test failed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use latchkey_image::gpt;

use crate::error::{HarnessError, io_error};
use crate::slot::Slot;

/// Socket addresses hold 108 bytes, so the directory's name must be short.
const MAX_NAME: usize = 32;

/// A directory for one test and everything it starts. Clones share it.
#[derive(Debug, Clone)]
pub struct Run {
    directory: Arc<Directory>,
}

#[derive(Debug)]
struct Directory {
    name: String,
    path: PathBuf,
    slot: Mutex<Option<Slot>>,
}

impl Run {
    /// Makes the directory, below `TMPDIR` or `/tmp`.
    pub fn new(name: &str) -> Result<Self, HarnessError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let short: String = name.chars().take(MAX_NAME).collect();
        let path = loop {
            let unique = format!("lk-{short}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(unique);
            match std::fs::create_dir(&path) {
                Ok(()) => break path,
                // Tests that were killed left it behind, and process ids come again.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("make", &path)(error)),
            }
        };
        Ok(Self { directory: Arc::new(Directory { name: name.into(), path, slot: Mutex::default() }) })
    }

    /// Waits until the run may have machines, which it then may until its end.
    pub(crate) fn wait_for_turn(&self) -> Result<(), HarnessError> {
        let mut slot = self.directory.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(Slot::take()?);
        }
        Ok(())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// A path inside the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path.join(name)
    }

    /// Makes a directory inside.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, HarnessError> {
        let path = self.file(name);
        std::fs::create_dir_all(&path).map_err(io_error("make", &path))?;
        Ok(path)
    }

    /// Writes a file inside and says where.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, HarnessError> {
        let path = self.file(name);
        std::fs::write(&path, content).map_err(io_error("write", &path))?;
        Ok(path)
    }

    /// Makes an empty disk of `size` bytes, without using the space.
    pub fn disk(&self, name: &str, size: u64) -> Result<PathBuf, HarnessError> {
        let path = self.file(name);
        let file = std::fs::File::create(&path).map_err(io_error("make", &path))?;
        file.set_len(size).map_err(io_error("grow", &path))?;
        Ok(path)
    }

    /// Makes a disk with partitions.
    pub fn partitioned_disk(&self, name: &str, disk: &gpt::Disk<'_>) -> Result<PathBuf, HarnessError> {
        let path = self.file(name);
        let mut file = std::fs::File::create_new(&path).map_err(io_error("make", &path))?;
        disk.write(&mut file)?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(logs) = self.save_logs()
        {
            eprintln!("logs of this run: {}", logs.display());
        }
        // What cannot be removed is in the way of nobody: the next run has another name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Directory {
    fn save_logs(&self) -> Option<PathBuf> {
        let logs = crate::build::target_directory().join("qemu-logs").join(&self.name);
        std::fs::create_dir_all(&logs).ok()?;
        for entry in std::fs::read_dir(&self.path).ok()?.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "log") {
                std::fs::copy(entry.path(), logs.join(entry.file_name())).ok()?;
            }
        }
        Some(logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_ends_with_its_last_user() {
        let run = Run::new("ends").unwrap();
        let other = run.clone();
        let path = run.path().to_path_buf();
        run.write("file", "content").unwrap();
        drop(run);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn two_runs_of_one_name_do_not_meet() {
        let (one, other) = (Run::new("twice").unwrap(), Run::new("twice").unwrap());
        assert_ne!(one.path(), other.path());
    }
}
