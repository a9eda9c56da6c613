//! PCR banks and their hash algorithms.

use std::fmt;
use std::str::FromStr;

use ring::digest;

/// A `TPM_ALG_ID` as an event log names it (TCG Algorithm Registry). Not every one is a [`Bank`] that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlgorithmId(pub u16);

impl AlgorithmId {
    /// The bank, when its hash is known here.
    pub fn bank(self) -> Option<Bank> {
        Bank::ALL.into_iter().find(|bank| bank.algorithm() == self)
    }

    /// Bytes of a digest where the registry is known here, replayable or not.
    pub(crate) fn digest_size(self) -> Option<usize> {
        match self.0 {
            // TPM_ALG_SM3_256 and TPM_ALG_SHA3_256, _384, _512: in logs of some machines, replayed by none of ours.
            0x0012 | 0x0027 => Some(32),
            0x0028 => Some(48),
            0x0029 => Some(64),
            _ => self.bank().map(Bank::digest_size),
        }
    }
}

impl fmt::Display for AlgorithmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bank(), self.0) {
            (Some(bank), _) => bank.fmt(f),
            (None, 0x0012) => f.write_str("sm3_256"),
            (None, 0x0027) => f.write_str("sha3_256"),
            (None, 0x0028) => f.write_str("sha3_384"),
            (None, 0x0029) => f.write_str("sha3_512"),
            (None, other) => write!(f, "algorithm {other:#06x}"),
        }
    }
}

/// A PCR bank that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bank {
    /// SHA-1: in old logs; nothing is decided by it.
    Sha1,
    /// SHA-256: the bank that is quoted.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Bank {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Its `TPM_ALG_ID`.
    pub fn algorithm(self) -> AlgorithmId {
        AlgorithmId(match self {
            Self::Sha1 => 0x0004,
            Self::Sha256 => 0x000b,
            Self::Sha384 => 0x000c,
            Self::Sha512 => 0x000d,
        })
    }

    /// Bytes of a digest.
    pub fn digest_size(self) -> usize {
        self.hash().output_len()
    }

    /// The name, as `tpm2-tools` writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The digest of `parts`, one after the other.
    pub fn digest(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut context = digest::Context::new(self.hash());
        for part in parts {
            context.update(part);
        }
        context.finish().as_ref().to_vec()
    }

    fn hash(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

impl fmt::Display for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Bank {
    type Err = UnknownBankError;

    fn from_str(name: &str) -> Result<Self, UnknownBankError> {
        Self::ALL.into_iter().find(|bank| bank.as_str() == name).ok_or(UnknownBankError)
    }
}

/// A name that is no bank's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no bank of this name: sha1, sha256, sha384 or sha512")]
pub struct UnknownBankError;
