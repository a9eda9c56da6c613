//! A P-256 public key as `SubjectPublicKeyInfo`: what the TLS layer shows instead of a certificate (RFC 7250), what gets
//! pinned, and what evidence is bound to.
//!
//! A certificate could say nothing more here: who the key belongs to is said by evidence, later, and that the peer
//! holds it is proven by its TLS signature over the whole handshake. So everything but the point is constant, and
//! reading is comparing: no X.509 parser, no date, no name, nothing that could be read in two ways.

use std::fmt;
use std::str::FromStr;

use latchkey_attestation::parse::Digest;
use ring::digest::{SHA256, digest};

use super::provider::{P256_POINT_LEN, signature_is_by};

/// Length of the `SubjectPublicKeyInfo` of a P-256 key in DER.
pub(crate) const SPKI_LEN: usize = SPKI_PREFIX.len() + P256_POINT_LEN;

/// RFC 5480 section 2.1.1: `id-ecPublicKey`, `secp256r1`, then a BIT STRING of 65 bytes.
const SPKI_PREFIX: &[u8; 26] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

/// An ECDSA signature over P-256 in DER: two integers of at most 33 bytes.
pub(crate) const MAX_SIGNATURE_LEN: usize = 72;

/// The `SubjectPublicKeyInfo` of a P-256 key, 91 bytes of DER.
#[derive(Clone, PartialEq, Eq)]
pub struct Spki([u8; SPKI_LEN]);

impl Spki {
    /// Wraps a point. Whether it lies on the curve shows when a signature is checked with it.
    pub(crate) fn from_point(point: &[u8; P256_POINT_LEN]) -> Self {
        let mut der = [0; SPKI_LEN];
        let (head, tail) = der.split_at_mut(SPKI_PREFIX.len());
        head.copy_from_slice(SPKI_PREFIX);
        tail.copy_from_slice(point);
        Self(der)
    }

    /// Reads DER; `None` for anything but a P-256 key with an uncompressed point.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let point: &[u8; P256_POINT_LEN] = der.strip_prefix(SPKI_PREFIX)?.try_into().ok()?;
        (point.first() == Some(&0x04)).then(|| Self::from_point(point))
    }

    /// The DER.
    pub fn as_der(&self) -> &[u8; SPKI_LEN] {
        &self.0
    }

    /// SHA-256 of the DER, which is what gets pinned and bound.
    pub fn hash(&self) -> SpkiHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &self.0).as_ref());
        SpkiHash(hash)
    }

    /// Whether `signature` (DER) over `message` is by this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        signature_is_by(self.0.split_at(SPKI_PREFIX.len()).1, message, signature)
    }
}

impl fmt::Debug for Spki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spki({})", self.hash())
    }
}

/// SHA-256 of a `SubjectPublicKeyInfo` in DER. As text 64 hex digits, lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpkiHash(pub [u8; 32]);

impl fmt::Display for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpkiHash({self})")
    }
}

impl FromStr for SpkiHash {
    type Err = SpkiHashError;

    fn from_str(text: &str) -> Result<Self, SpkiHashError> {
        Digest::from_hex(text).map(|digest| Self(digest.0)).ok_or(SpkiHashError)
    }
}

/// The text is no [`SpkiHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key hash: expected 64 lower-case hex digits, the SHA-256 of the SubjectPublicKeyInfo")]
pub struct SpkiHashError;

/// Why what a peer shows is not a key of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerKeyError {
    /// Not exactly one key.
    #[error("expected one raw public key, got {got}")]
    Number {
        /// How many came.
        got: usize,
    },
    /// Not the `SubjectPublicKeyInfo` of a P-256 key.
    #[error("not the SubjectPublicKeyInfo of a P-256 key with an uncompressed point")]
    Form,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::P256Key;

    fn spki() -> Spki {
        Spki::from_point(P256Key::generate().unwrap().point().unwrap())
    }

    #[test]
    fn what_is_written_is_read() {
        let spki = spki();
        assert_eq!(Spki::from_der(spki.as_der()), Some(spki));
    }

    /// rustls-webpki, which takes no part in the channel, reads the same key.
    #[test]
    fn a_second_implementation_reads_the_key() {
        let key = P256Key::generate().unwrap();
        let spki = Spki::from_point(key.point().unwrap());
        let der = rustls::pki_types::SubjectPublicKeyInfoDer::from(spki.as_der().as_slice());
        let parsed = webpki::RawPublicKeyEntity::try_from(&der).unwrap();
        let signature = key.sign(b"a message").unwrap();
        parsed.verify_signature(webpki::ring::ECDSA_P256_SHA256, b"a message", &signature).unwrap();
        assert!(parsed.verify_signature(webpki::ring::ECDSA_P256_SHA256, b"another", &signature).is_err());
        assert!(spki.verifies(b"a message", &signature) && !spki.verifies(b"another", &signature));
    }

    /// A changed bit makes it unreadable, or another key, which verifies nothing of the first.
    #[test]
    fn every_flipped_bit_is_refused() {
        let key = P256Key::generate().unwrap();
        let spki = Spki::from_point(key.point().unwrap());
        let signature = key.sign(b"a message").unwrap();
        for position in 0..SPKI_LEN {
            for bit in 0..8 {
                let mut changed = *spki.as_der();
                changed[position] ^= 1 << bit;
                let read = Spki::from_der(&changed);
                assert_eq!(read.is_some(), position > SPKI_PREFIX.len(), "byte {position} bit {bit}");
                if let Some(other) = read {
                    assert_ne!(other.hash(), spki.hash());
                    assert!(!other.verifies(b"a message", &signature), "byte {position} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        let mut der = spki().as_der().to_vec();
        for len in 0..der.len() {
            assert_eq!(Spki::from_der(&der[..len]), None);
        }
        der.push(0);
        assert_eq!(Spki::from_der(&der), None);
    }

    #[test]
    fn key_hashes_are_lower_case_hex_of_32_bytes() {
        let hash = spki().hash();
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string().to_uppercase().parse::<SpkiHash>(), Err(SpkiHashError));
        assert_eq!(hash.to_string()[2..].parse::<SpkiHash>(), Err(SpkiHashError));
    }
}
