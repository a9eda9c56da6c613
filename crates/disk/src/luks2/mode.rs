//! The two shapes of the data that the closed list knows, and what follows from each.

use crate::kdf::STRIPES;

/// Bytes of one sector of the encrypted segment.
pub const SECTOR: u64 = 4096;

/// How the data is protected. Pinned by the measured configuration, never chosen by the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentMode {
    /// aes-xts-plain64 over 4096-byte sectors: confidential, not authenticated.
    Confidential,
    /// aes-xts with a random IV per write, HMAC-SHA256 over sector number, IV and ciphertext, both kept by dm-integrity
    /// beside the data: a sector that was not written under this key is an I/O error.
    Authenticated,
}

impl SegmentMode {
    /// The byte string under the MAC.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Confidential => "aes-xts-plain64/4096",
            Self::Authenticated => "aes-xts-random/hmac-sha256/4096",
        }
    }

    /// The segment's cipher as cryptsetup spells it.
    ///
    /// `random` and not `plain64` for the authenticated mode: the tag has room for the IV, and a sector written twice
    /// with the same content does not show it.
    pub(crate) const fn cipher(self) -> &'static str {
        match self {
            Self::Confidential => "aes-xts-plain64",
            Self::Authenticated => "aes-xts-random",
        }
    }

    /// Bytes of the volume key: two AES-256 keys for XTS, and for the authenticated mode the key of the HMAC behind them.
    pub(crate) const fn key_size(self) -> usize {
        match self {
            Self::Confidential => 64,
            Self::Authenticated => 64 + 32,
        }
    }

    /// Bytes of the key slot's split key material.
    pub(crate) const fn split(self) -> usize {
        STRIPES * self.key_size()
    }

    /// What a key slot area measures: the split key material, rounded up to whole sectors.
    pub(crate) const fn area(self) -> u64 {
        (self.split() as u64).next_multiple_of(SECTOR)
    }
}
