//! The directory of one test. It goes away with its last user; logs stay if the test failed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use latchkey_image::gpt;

use crate::error::{HarnessError, io_error};

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
            *slot = Some(Slot::take(TURN).ok_or_else(|| {
                HarnessError::Unusable(format!(
                    "{}: after {TURN:?} the machines of other tests are still running",
                    self.directory.name
                ))
            })?);
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

/// Machines want a processor each. So only as many runs as there are processors have machines at a
/// time; the others wait for their turn before they start any, and their deadlines with them.
#[derive(Debug)]
struct Slot;

/// The longest that other tests have machines, each of whose steps has a deadline of its own.
const TURN: Duration = Duration::from_mins(30);

static USED: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Slot {
    /// Fewer would be slow where waiting dominates, more would need too much memory.
    const RANGE: (usize, usize) = (2, 6);

    fn take(within: Duration) -> Option<Self> {
        let (least, most) = Self::RANGE;
        let slots = std::thread::available_parallelism().map_or(least, |cores| cores.get().clamp(least, most));
        let used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = FREED.wait_timeout_while(used, within, |used| *used >= slots);
        let (mut used, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        *used += 1;
        Some(Self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *USED.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
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
    fn only_so_many_runs_have_machines_at_a_time() {
        let slots: Vec<_> = (0..Slot::RANGE.0).map(|_| Slot::take(TURN).unwrap()).collect();
        let first = *USED.lock().unwrap();
        assert!(first >= slots.len());
        let waiter = std::thread::spawn(|| (0..Slot::RANGE.1).map(|_| drop(Slot::take(TURN).unwrap())).count());
        drop(slots);
        assert_eq!(waiter.join().unwrap(), Slot::RANGE.1);
    }

    #[test]
    fn two_runs_of_one_name_do_not_meet() {
        let (one, other) = (Run::new("twice").unwrap(), Run::new("twice").unwrap());
        assert_ne!(one.path(), other.path());
    }
}
