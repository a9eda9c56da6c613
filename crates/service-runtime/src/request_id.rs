//! Names for requests, to find them again in logs.

use ring::rand::{SecureRandom, SystemRandom};
use std::sync::atomic::{AtomicU64, Ordering};

/// Unique over restarts: a random prefix for the process, then a counter.
#[derive(Debug)]
pub struct RequestIds {
    prefix: u32,
    next: AtomicU64,
}

impl RequestIds {
    /// With a prefix of its own.
    pub fn new() -> Self {
        let mut prefix = [0; 4];
        // Only uniqueness in logs hangs on this; the process id does when there is no randomness.
        let random = SystemRandom::new().fill(&mut prefix);
        let prefix = random.map_or_else(|_| std::process::id(), |()| u32::from_be_bytes(prefix));
        Self { prefix, next: AtomicU64::new(1) }
    }

    /// The next one.
    pub fn next(&self) -> String {
        format!("{:08x}-{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}
