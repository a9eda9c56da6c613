//! Algorithm identifiers (part 2, table 9: `TPM_ALG_ID`; table 10: `TPM_ECC_CURVE`), as closed lists.

use super::{Reader, WireError, Writer};
use ring::{digest, hmac};

pub(crate) const ALG_RSA: u16 = 0x0001;
pub(crate) const ALG_AES: u16 = 0x0006;
pub(crate) const ALG_NULL: u16 = 0x0010;
pub(crate) const ALG_RSASSA: u16 = 0x0014;
pub(crate) const ALG_RSAPSS: u16 = 0x0016;
pub(crate) const ALG_ECDSA: u16 = 0x0018;
pub(crate) const ALG_ECC: u16 = 0x0023;
pub(crate) const ALG_CFB: u16 = 0x0043;

/// A hash. SHA-1 is left out on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HashAlg {
    /// `TPM_ALG_SHA256`
    Sha256,
    /// `TPM_ALG_SHA384`
    Sha384,
    /// `TPM_ALG_SHA512`
    Sha512,
}

impl HashAlg {
    /// Longest digest, in bytes.
    pub const MAX_SIZE: usize = 64;

    /// `TPM_ALG_ID`.
    pub const fn id(self) -> u16 {
        match self {
            Self::Sha256 => 0x000b,
            Self::Sha384 => 0x000c,
            Self::Sha512 => 0x000d,
        }
    }

    /// The hash with this `TPM_ALG_ID`.
    pub fn from_id(id: u16) -> Result<Self, WireError> {
        match id {
            0x000b => Ok(Self::Sha256),
            0x000c => Ok(Self::Sha384),
            0x000d => Ok(Self::Sha512),
            _ => Err(WireError::Unsupported { field: "hash algorithm", got: id.into() }),
        }
    }

    /// Length of a digest, in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// The digest of the concatenated `parts`.
    pub fn digest(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut context = digest::Context::new(match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        });
        for part in parts {
            context.update(part);
        }
        context.finish().as_ref().to_vec()
    }

    /// The HMAC of the concatenated `parts`.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
        let key = hmac::Key::new(
            match self {
                Self::Sha256 => hmac::HMAC_SHA256,
                Self::Sha384 => hmac::HMAC_SHA384,
                Self::Sha512 => hmac::HMAC_SHA512,
            },
            key,
        );
        let mut context = hmac::Context::with_key(&key);
        for part in parts {
            context.update(part);
        }
        context.sign()
    }
}

/// An elliptic curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// `TPM_ECC_NIST_P256`
    P256,
    /// `TPM_ECC_NIST_P384`
    P384,
    /// `TPM_ECC_NIST_P521`
    P521,
}

impl Curve {
    /// `TPM_ECC_CURVE`.
    pub const fn id(self) -> u16 {
        match self {
            Self::P256 => 0x0003,
            Self::P384 => 0x0004,
            Self::P521 => 0x0005,
        }
    }

    /// Length of a coordinate, in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u16()? {
            0x0003 => Ok(Self::P256),
            0x0004 => Ok(Self::P384),
            0x0005 => Ok(Self::P521),
            got => Err(WireError::Unsupported { field: "curve", got: got.into() }),
        }
    }
}

/// The symmetric cipher that protects what a storage or endorsement key wraps (`TPMT_SYM_DEF_OBJECT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetric {
    /// None: the key signs.
    Null,
    /// AES-128 in CFB mode.
    Aes128Cfb,
    /// AES-256 in CFB mode.
    Aes256Cfb,
}

impl Symmetric {
    /// Length of a key in bits; 0 for `Null`.
    pub const fn bits(self) -> u16 {
        match self {
            Self::Null => 0,
            Self::Aes128Cfb => 128,
            Self::Aes256Cfb => 256,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u16()? {
            ALG_NULL => return Ok(Self::Null),
            ALG_AES => {}
            got => return Err(WireError::Unsupported { field: "symmetric algorithm", got: got.into() }),
        }
        let cipher = match reader.u16()? {
            128 => Self::Aes128Cfb,
            256 => Self::Aes256Cfb,
            got => return Err(WireError::Unsupported { field: "AES key bits", got: got.into() }),
        };
        match reader.u16()? {
            ALG_CFB => Ok(cipher),
            got => Err(WireError::Unsupported { field: "symmetric mode", got: got.into() }),
        }
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::Null => writer.u16(ALG_NULL),
            Self::Aes128Cfb | Self::Aes256Cfb => writer.u16(ALG_AES).u16(self.bits()).u16(ALG_CFB),
        };
    }
}
