//! Where random bytes come from: the kernel, or in tests a counter.

use ring::rand::{SecureRandom, SystemRandom};

/// A source of random bytes. Production code uses [`KernelRandom`]; tests need runs that repeat.
pub trait Random {
    /// Fills `out` completely.
    ///
    /// # Errors
    /// [`RandomError`] if that is impossible; `out` must not be used then.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError>;
}

/// getrandom(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelRandom;

impl Random for KernelRandom {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        SystemRandom::new().fill(out).map_err(|_| RandomError)
    }
}

/// The source of random bytes gave none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel gave no random bytes")]
pub struct RandomError;

#[cfg(test)]
pub(crate) mod fixed {
    use super::*;
    use ring::digest::{SHA256, digest};

    /// A fake source whose bytes are the hashes of a counter: the same seed, the same disk.
    pub(crate) struct Counting(u64);

    impl Counting {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed << 32)
        }
    }

    impl Random for Counting {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            for chunk in out.chunks_mut(32) {
                self.0 += 1;
                chunk.copy_from_slice(&digest(&SHA256, &self.0.to_be_bytes()).as_ref()[..chunk.len()]);
            }
            Ok(())
        }
    }
}
