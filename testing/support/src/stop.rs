//! Threads that work until they are stopped, and are stopped however the test ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, by a panic too: who waits for threads that look at it never waits for ever.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
