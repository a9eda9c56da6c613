//! Random numbers from the kernel.

use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

use super::clock;

/// Waits until the kernel's generator is seeded, and says how long that took.
///
/// getrandom(2): "By default, when reading from the urandom source \[…\] if the entropy pool has not yet been
/// initialized, then the call blocks". Every later user of randomness may rely on it.
pub fn wait() -> Duration {
    let begin = clock::uptime();
    let _: [u8; 1] = bytes();
    clock::uptime().saturating_sub(begin)
}

/// `N` random bytes, for jitter, transaction numbers and the like; keys come from the key crate.
///
/// # Panics
/// If the kernel has no `getrandom`, which is older than anything that could boot this.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut buffer = [0; N];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(error) => assert!(error == rustix::io::Errno::INTR, "getrandom: {error}"),
        }
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        wait();
        assert_ne!(bytes::<32>(), bytes::<32>());
    }
}
