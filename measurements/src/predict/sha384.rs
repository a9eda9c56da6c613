//! SHA-384, which the registers of TDX guests are made of. Computed only for types of machines that have such guests.

use latchkey_attestation::reference::LaunchDigest;
use ring::digest::{Context, SHA384};

use super::pass::Hash;

/// A hash in the making.
#[derive(Clone)]
pub(super) struct Sha384(Context);

impl Hash for Sha384 {
    fn new() -> Self {
        Self(Context::new(&SHA384))
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl Sha384 {
    pub(super) fn finish(self) -> LaunchDigest {
        // A SHA-384 digest always has this length.
        LaunchDigest(self.0.finish().as_ref().try_into().unwrap_or([0; 48]))
    }
}

/// SHA-384 of `parts`, one after the other.
pub(super) fn sha384(parts: &[&[u8]]) -> LaunchDigest {
    let mut hash = Sha384::new();
    for part in parts {
        hash.update(part);
    }
    hash.finish()
}
