//! `TPMA_OBJECT` (part 2, section 8.3).

use super::WireError;
use std::ops::BitOr;

/// Attributes of an object, a set of bits. Reserved bits are refused when parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(u32);

impl Attributes {
    /// The object never leaves this TPM.
    pub const FIXED_TPM: Self = Self(1 << 1);
    /// Saved contexts of the object do not survive a restart.
    pub const ST_CLEAR: Self = Self(1 << 2);
    /// The object stays under its parent.
    pub const FIXED_PARENT: Self = Self(1 << 4);
    /// The TPM made the secret part itself.
    pub const SENSITIVE_DATA_ORIGIN: Self = Self(1 << 5);
    /// Ordinary use may be authorised with the authorisation value, not only by policy.
    pub const USER_WITH_AUTH: Self = Self(1 << 6);
    /// Administrative use is authorised by policy only.
    pub const ADMIN_WITH_POLICY: Self = Self(1 << 7);
    /// Failed authorisations do not count towards the lockout.
    pub const NO_DA: Self = Self(1 << 10);
    /// The object may only be duplicated under the same inner wrapping as its group.
    pub const ENCRYPTED_DUPLICATION: Self = Self(1 << 11);
    /// The key works only on structures of known format, and signs only what the TPM itself digested.
    pub const RESTRICTED: Self = Self(1 << 16);
    /// The private part may decrypt.
    pub const DECRYPT: Self = Self(1 << 17);
    /// The private part may sign.
    pub const SIGN: Self = Self(1 << 18);
    /// The key may only sign X.509 certificates made by the TPM.
    pub const X509_SIGN: Self = Self(1 << 19);

    const KNOWN: u32 = Self::FIXED_TPM.0
        | Self::ST_CLEAR.0
        | Self::FIXED_PARENT.0
        | Self::SENSITIVE_DATA_ORIGIN.0
        | Self::USER_WITH_AUTH.0
        | Self::ADMIN_WITH_POLICY.0
        | Self::NO_DA.0
        | Self::ENCRYPTED_DUPLICATION.0
        | Self::RESTRICTED.0
        | Self::DECRYPT.0
        | Self::SIGN.0
        | Self::X509_SIGN.0;

    /// The attributes in `bits`; reserved bits are refused.
    pub fn from_bits(bits: u32) -> Result<Self, WireError> {
        if bits & !Self::KNOWN == 0 {
            Ok(Self(bits))
        } else {
            Err(WireError::Unsupported { field: "object attributes", got: bits })
        }
    }

    /// As `TPMA_OBJECT`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Attributes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
