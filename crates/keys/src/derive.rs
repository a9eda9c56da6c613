//! HKDF-SHA256 (RFC 5869), through ring.

use crate::{KeyError, KeyVersion, SecretVec};
use ring::hkdf;

/// What [`MasterSecret::derive`](crate::MasterSecret::derive) gives.
#[derive(Debug, PartialEq, Eq)]
pub struct DerivedKey {
    /// The key.
    pub key: SecretVec,
    /// The version of the master secret it came from.
    pub version: KeyVersion,
}

/// Length of a derived key: 16 to 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLength(u32);

impl KeyLength {
    /// Shortest key that may be asked for: 128 bits.
    pub const MIN: u32 = 16;
    /// Longest key that may be asked for: 512 bits, the two halves of an AES-256-XTS key.
    pub const MAX: u32 = 64;
    /// 32 bytes, what state disks and the measurement secret use.
    pub const DEFAULT: Self = Self(32);

    /// # Errors
    /// [`KeyError::KeyLength`] outside 16..=64.
    pub fn new(bytes: u32) -> Result<Self, KeyError> {
        if (Self::MIN..=Self::MAX).contains(&bytes) { Ok(Self(bytes)) } else { Err(KeyError::KeyLength { got: bytes }) }
    }

    /// Number of bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

/// `HKDF-Expand(HKDF-Extract(salt, secret), label, out.len())`.
pub(crate) fn hkdf_sha256(salt: &[u8], secret: &[u8], label: &[u8], out: &mut [u8]) -> Result<(), KeyError> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let length = out.len();
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[label], Length(length))
        .and_then(|okm| okm.fill(out))
        .map_err(|_| KeyError::KeyLength { got: u32::try_from(length).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869 appendix A.1.
    #[test]
    fn hkdf_agrees_with_rfc_5869() {
        let salt: Vec<u8> = (0..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let mut okm = [0; 42];
        hkdf_sha256(&salt, &[0x0b; 22], &info, &mut okm).unwrap();
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(hex::encode(okm), expected);
    }

    #[test]
    fn absurd_lengths_are_refused() {
        for bytes in [0, 1, 15, 65, 8160, u32::MAX] {
            assert_eq!(KeyLength::new(bytes), Err(KeyError::KeyLength { got: bytes }));
        }
        assert_eq!(KeyLength::new(16).unwrap().bytes(), 16);
        assert_eq!(KeyLength::new(64).unwrap().bytes(), 64);
    }
}
