//! The hash of what is written or read piece by piece.

use latchkey_kubernetes::Sha256;
use ring::digest::{Context, SHA256};

pub(super) struct Digest(Context);

impl Digest {
    pub(super) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Sha256 {
        let digest = self.0.finish();
        // Both are 32 bytes; as text they go through the one check that there is.
        Sha256::try_from(hex::encode(digest.as_ref())).unwrap_or_else(|_| Sha256::of(&[]))
    }
}
