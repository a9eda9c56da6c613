//! `TPMT_SIGNATURE` (part 2, section 11.3.4).

use super::algorithm::{ALG_ECDSA, ALG_RSASSA};
use super::{HashAlg, Reader, WireError, Writer};

/// A signature of an attestation key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// `TPM_ALG_ECDSA` on P-256.
    Ecdsa {
        /// Hash of the message.
        hash: HashAlg,
        /// Big-endian, 1 to 32 bytes.
        r: Vec<u8>,
        /// Big-endian, 1 to 32 bytes.
        s: Vec<u8>,
    },
    /// `TPM_ALG_RSASSA`.
    RsaSsa {
        /// Hash of the message.
        hash: HashAlg,
        /// As long as the modulus: 256, 384 or 512 bytes.
        signature: Vec<u8>,
    },
}

const SCALAR: usize = 32;
const MAX_RSA: usize = 512;

impl Signature {
    /// Parses a whole `TPMT_SIGNATURE`.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        Reader::all(bytes, Self::read)
    }

    /// As `TPMT_SIGNATURE`.
    pub fn marshal(&self) -> Vec<u8> {
        Writer::build(|out| {
            match self {
                Self::Ecdsa { hash, r, s } => out.u16(ALG_ECDSA).u16(hash.id()).sized(r).sized(s),
                Self::RsaSsa { hash, signature } => out.u16(ALG_RSASSA).u16(hash.id()).sized(signature),
            };
        })
    }

    /// The hash of the message, which is also the hash of the quote's PCR digest.
    pub fn hash(&self) -> HashAlg {
        match self {
            Self::Ecdsa { hash, .. } | Self::RsaSsa { hash, .. } => *hash,
        }
    }

    /// An ECDSA signature as `r ‖ s`, each padded to 32 bytes; `None` for RSA.
    pub fn fixed(&self) -> Option<[u8; 2 * SCALAR]> {
        let Self::Ecdsa { r, s, .. } = self else { return None };
        let mut out = [0; 2 * SCALAR];
        let (left, right) = out.split_at_mut(SCALAR);
        for (half, scalar) in [(left, r), (right, s)] {
            let start = SCALAR.checked_sub(scalar.len())?;
            half.get_mut(start..)?.copy_from_slice(scalar);
        }
        Some(out)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let algorithm = reader.u16()?;
        match algorithm {
            ALG_ECDSA => {
                let hash = HashAlg::from_id(reader.u16()?)?;
                let mut scalar = |field| match reader.sized(field, SCALAR) {
                    Ok([]) => Err(WireError::Length { field, max: SCALAR, got: 0 }),
                    other => other.map(<[u8]>::to_vec),
                };
                Ok(Self::Ecdsa { hash, r: scalar("ECDSA r")?, s: scalar("ECDSA s")? })
            }
            ALG_RSASSA => {
                let hash = HashAlg::from_id(reader.u16()?)?;
                let signature = reader.sized("RSA signature", MAX_RSA)?.to_vec();
                if !matches!(signature.len(), 256 | 384 | MAX_RSA) {
                    return Err(WireError::Length { field: "RSA signature", max: MAX_RSA, got: signature.len() });
                }
                Ok(Self::RsaSsa { hash, signature })
            }
            got => Err(WireError::Unsupported { field: "signature algorithm", got: got.into() }),
        }
    }
}
