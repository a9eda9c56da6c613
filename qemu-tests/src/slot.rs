//! Machines want a processor each, and memory. So only as many runs as there are processors have machines at a time, over all test
//! programs of this user; the others wait for their turn before they start any, and their deadlines with them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use latchkey_test_support::until_within;

use crate::error::{HarnessError, io_error};

/// The longest that other tests have machines, each of whose steps has a deadline of its own.
const TURN: Duration = Duration::from_mins(90);
/// Between two looks for a free slot: who had it may have been killed, and tells nobody.
const LOOK: Duration = Duration::from_millis(250);
/// Fewer would be slow where waiting dominates, more would need too much memory.
const RANGE: (usize, usize) = (2, 6);

/// The right to have machines: a lock on a file, which ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Slot {
    _lock: File,
}

impl Slot {
    /// Waits for a free one.
    ///
    /// # Panics
    /// If there is none within [`TURN`].
    pub(crate) fn take() -> Result<Self, HarnessError> {
        let directory = directory();
        std::fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
        let slots = available_parallelism().map_or(RANGE.0, |cores| cores.get().clamp(RANGE.0, RANGE.1));
        until_within("the machines of other tests to end", TURN, LOOK, || {
            (0..slots).find_map(|number| Self::of(&directory.join(number.to_string())).transpose())
        })
    }

    fn of(path: &Path) -> Result<Option<Self>, HarnessError> {
        let file = File::create(path).map_err(io_error("open", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(io_error("lock", path)(error)),
        }
    }
}

/// Of this user: another one's files could not be locked.
fn directory() -> PathBuf {
    std::env::temp_dir().join(format!("latchkey-machines-{}", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_gets_the_slot_that_another_one_gives_back() {
        let waiting: Vec<_> = (0..=RANGE.1).map(|_| std::thread::spawn(|| drop(Slot::take().unwrap()))).collect();
        assert!(waiting.into_iter().all(|thread| thread.join().is_ok()));
    }

    #[test]
    fn a_slot_is_held_against_others_until_it_is_dropped() {
        let slot = Slot::take().unwrap();
        let held = || {
            let all = std::fs::read_dir(directory()).unwrap().flatten();
            let own = all.filter(|entry| File::open(entry.path()).is_ok_and(|file| file.try_lock().is_err()));
            own.count()
        };
        // Others may have theirs all the while.
        assert!(held() >= 1);
        drop(slot);
    }
}
