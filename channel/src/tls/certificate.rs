//! The one certificate form of the channel, written and read by hand.
//!
//! A certificate here carries a public key and nothing else; who the key belongs to is said by evidence, later. So
//! everything but the key and the signature is constant, and reading is comparing: no X.509 parser, no extension, no
//! date, no name that could be read in two ways. The constants are chosen so that any X.509 tool can print it.

use std::fmt;
use std::str::FromStr;

use latchkey_attestation::parse::Digest;
use ring::digest::{SHA256, digest};

use super::provider::{KeyUnusable, P256Key, signature_is_by};

/// Length of an uncompressed P-256 point: 04 ‖ X ‖ Y.
pub(crate) const P256_POINT_LEN: usize = 65;
/// Length of the `SubjectPublicKeyInfo` of a P-256 key in DER.
const SPKI_LEN: usize = SPKI_PREFIX.len() + P256_POINT_LEN;

/// RFC 5480 section 2.1.1: `id-ecPublicKey`, `secp256r1`, then a BIT STRING of 65 bytes.
const SPKI_PREFIX: &[u8; 26] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

/// `TBSCertificate` (RFC 5280 section 4.1) up to the key: version 3, serial number 1, ecdsa-with-SHA256, issuer
/// `CN=latchkey`, valid from 1970 to 9999 (section 4.1.2.5: "To indicate that a certificate has no well-defined
/// expiration date, the notAfter SHOULD be assigned the `GeneralizedTime` value of 99991231235959Z"; a node's clock may
/// say anything), subject as issuer.
const TBS_PREFIX: &[u8; 99] = b"\x30\x81\xbb\
    \xa0\x03\x02\x01\x02\
    \x02\x01\x01\
    \x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02\
    \x30\x13\x31\x11\x30\x0f\x06\x03\x55\x04\x03\x0c\x08latchkey\
    \x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z\
    \x30\x13\x31\x11\x30\x0f\x06\x03\x55\x04\x03\x0c\x08latchkey";

/// Between `TBSCertificate` and the signature: ecdsa-with-SHA256 once more.
const SIGNATURE_ALGORITHM: &[u8; 12] = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";

const TBS_LEN: usize = TBS_PREFIX.len() + SPKI_LEN;
/// Two length bytes are enough and needed: a signature is 68 to 72 bytes long, but for one in 2³² or so.
const OUTER_PREFIX: [u8; 2] = [0x30, 0x82];
const OUTER_HEADER_LEN: usize = 4;

/// The longest certificate there can be, bytes: the bound of the peer's.
pub const MAX_CERTIFICATE_LEN: usize = OUTER_HEADER_LEN + TBS_LEN + SIGNATURE_ALGORITHM.len() + 3 + MAX_SIGNATURE_LEN;
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
    pub fn as_der(&self) -> &[u8] {
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
    type Err = BadSpkiHash;

    fn from_str(text: &str) -> Result<Self, BadSpkiHash> {
        Digest::from_hex(text).map(|digest| Self(digest.0)).ok_or(BadSpkiHash)
    }
}

/// The text is no [`SpkiHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSpkiHash;

impl fmt::Display for BadSpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a key hash: expected 64 lower-case hex digits, the SHA-256 of the SubjectPublicKeyInfo")
    }
}

impl std::error::Error for BadSpkiHash {}

/// Writes the self-signed certificate of `key`.
pub(super) fn self_signed(key: &P256Key) -> Result<(Vec<u8>, Spki), KeyUnusable> {
    let spki = Spki::from_point(key.point()?);
    let mut tbs = Vec::with_capacity(TBS_LEN);
    tbs.extend_from_slice(TBS_PREFIX);
    tbs.extend_from_slice(spki.as_der());
    let signature = key.sign(&tbs)?;

    let signature_len = u8::try_from(signature.len()).map_err(|_| KeyUnusable)?;
    let content_len =
        u16::try_from(TBS_LEN + SIGNATURE_ALGORITHM.len() + 3 + signature.len()).map_err(|_| KeyUnusable)?;
    let mut der = Vec::with_capacity(MAX_CERTIFICATE_LEN);
    der.extend_from_slice(&OUTER_PREFIX);
    der.extend_from_slice(&content_len.to_be_bytes());
    der.extend_from_slice(&tbs);
    der.extend_from_slice(SIGNATURE_ALGORITHM);
    // BIT STRING, no unused bits.
    der.extend_from_slice(&[0x03, signature_len + 1, 0x00]);
    der.extend_from_slice(&signature);
    Ok((der, spki))
}

/// Why a peer's certificate is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// More than one certificate, where the channel knows no chains.
    Chain {
        /// How many came.
        got: usize,
    },
    /// Longer than any certificate of the channel.
    TooLong {
        /// How many bytes came; at most [`MAX_CERTIFICATE_LEN`] would do.
        got: usize,
    },
    /// Not of the one form.
    Form,
    /// Not signed by its own key.
    SelfSignature,
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain { got } => write!(f, "expected one self-signed certificate, got a chain of {got}"),
            Self::TooLong { got } => {
                write!(f, "certificate of {got} bytes where {MAX_CERTIFICATE_LEN} is the most there can be")
            }
            Self::Form => f.write_str("certificate is not of the channel's form"),
            Self::SelfSignature => f.write_str("certificate is not signed by its own key"),
        }
    }
}

impl std::error::Error for CertificateFault {}

/// Reads the key of a peer's certificate.
pub(super) fn read_key(der: &[u8]) -> Result<Spki, CertificateFault> {
    split(der).map(|parts| parts.spki)
}

/// Reads a peer's certificate and checks that its own key signed it.
pub fn read_self_signed(der: &[u8]) -> Result<Spki, CertificateFault> {
    let parts = split(der)?;
    if parts.spki.verifies(parts.tbs, parts.signature) { Ok(parts.spki) } else { Err(CertificateFault::SelfSignature) }
}

struct Parts<'a> {
    tbs: &'a [u8],
    spki: Spki,
    signature: &'a [u8],
}

fn split(der: &[u8]) -> Result<Parts<'_>, CertificateFault> {
    if der.len() > MAX_CERTIFICATE_LEN {
        return Err(CertificateFault::TooLong { got: der.len() });
    }
    split_form(der).ok_or(CertificateFault::Form)
}

fn split_form(der: &[u8]) -> Option<Parts<'_>> {
    let (content_len, content) = der.strip_prefix(&OUTER_PREFIX)?.split_first_chunk::<2>()?;
    if usize::from(u16::from_be_bytes(*content_len)) != content.len() {
        return None;
    }
    let (tbs, rest) = content.split_at_checked(TBS_LEN)?;
    let spki = Spki::from_der(tbs.strip_prefix(TBS_PREFIX)?)?;
    let (&[tag, len, unused], signature) = rest.strip_prefix(SIGNATURE_ALGORITHM)?.split_first_chunk::<3>()?;
    let well_formed = tag == 0x03 && unused == 0 && len < 0x80 && usize::from(len) == signature.len() + 1;
    well_formed.then_some(Parts { tbs, spki, signature })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> (Vec<u8>, Spki) {
        self_signed(&P256Key::generate().unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let (der, spki) = certificate();
        assert!(der.len() <= MAX_CERTIFICATE_LEN);
        assert_eq!(read_self_signed(&der), Ok(spki));
    }

    /// rustls-webpki, which takes no part in the channel, finds the same key and the same signature in it.
    #[test]
    fn a_second_implementation_reads_the_certificate() {
        let key = P256Key::generate().unwrap();
        let (der, _) = self_signed(&key).unwrap();
        let der = rustls::pki_types::CertificateDer::from(der);
        let parsed = webpki::EndEntityCert::try_from(&der).unwrap();
        let signature = key.sign(b"a message").unwrap();
        parsed.verify_signature(webpki::ring::ECDSA_P256_SHA256, b"a message", &signature).unwrap();
        assert!(parsed.verify_signature(webpki::ring::ECDSA_P256_SHA256, b"another", &signature).is_err());
        webpki::anchor_from_trusted_cert(&der).unwrap();
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let (der, _) = certificate();
        for position in 0..der.len() {
            for bit in 0..8 {
                let mut changed = der.clone();
                changed[position] ^= 1 << bit;
                assert!(read_self_signed(&changed).is_err(), "byte {position} bit {bit}");
            }
        }
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        let (mut der, _) = certificate();
        for len in 0..der.len() {
            assert_eq!(read_self_signed(&der[..len]), Err(CertificateFault::Form));
        }
        der.push(0);
        assert!(read_self_signed(&der).is_err());
        assert_eq!(read_self_signed(&[0; 300]), Err(CertificateFault::TooLong { got: 300 }));
    }

    #[test]
    fn a_certificate_signed_by_another_key_is_refused() {
        let (ours, spki) = certificate();
        let (other, _) = certificate();
        let mut mixed = other[..OUTER_HEADER_LEN + TBS_PREFIX.len()].to_vec();
        mixed.extend_from_slice(spki.as_der());
        mixed.extend_from_slice(&other[OUTER_HEADER_LEN + TBS_LEN..]);
        assert_ne!(mixed, ours);
        assert_eq!(read_self_signed(&mixed), Err(CertificateFault::SelfSignature));
    }

    #[test]
    fn key_hashes_are_lower_case_hex_of_32_bytes() {
        let hash = certificate().1.hash();
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string().to_uppercase().parse::<SpkiHash>(), Err(BadSpkiHash));
        assert_eq!(hash.to_string()[2..].parse::<SpkiHash>(), Err(BadSpkiHash));
    }
}
