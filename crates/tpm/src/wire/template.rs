//! Templates of the keys Latchkey uses. Endorsement keys: *TCG EK Credential Profile for TPM Family 2.0*,
//! version 2.5, appendix B ("Default EK Templates"); 2.6 has the same ones. H-5, on SM2, is left out.

use super::policy::{policy_a, policy_b};
use super::{Attributes, Curve, EccPoint, HashAlg, KeyScheme, Public, PublicKey, Symmetric};

/// An endorsement-key template of the profile. Each gives another key of the same TPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EkTemplate {
    /// B.3.3, template L-1: RSA 2048, storage.
    RsaL1,
    /// B.3.4, template L-2: ECC NIST P-256, storage.
    P256L2,
    /// B.4.4, template H-1: RSA 2048, storage.
    RsaH1,
    /// B.4.5, template H-2: ECC NIST P-256, storage.
    P256H2,
    /// B.4.6, template H-3: ECC NIST P-384, storage.
    P384H3,
    /// B.4.7, template H-4: ECC NIST P-521, storage.
    P521H4,
    /// B.4.9, template H-6: RSA 3072, storage.
    Rsa3072H6,
    /// B.4.10, template H-7: RSA 4096, storage.
    Rsa4096H7,
}

impl EkTemplate {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::RsaL1,
        Self::P256L2,
        Self::RsaH1,
        Self::P256H2,
        Self::P384H3,
        Self::P521H4,
        Self::Rsa3072H6,
        Self::Rsa4096H7,
    ];

    /// Its name in policies and in `latchkey.ek`. Where a TPM has a key of either range, the low one, which nearly every
    /// TPM is certified for, has the short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RsaL1 => "rsa-2048",
            Self::P256L2 => "ecc-p256",
            Self::RsaH1 => "rsa-2048-high",
            Self::P256H2 => "ecc-p256-high",
            Self::P384H3 => "ecc-p384",
            Self::P521H4 => "ecc-p521",
            Self::Rsa3072H6 => "rsa-3072",
            Self::Rsa4096H7 => "rsa-4096",
        }
    }

    /// The template of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.name() == name)
    }

    /// The template as `CreatePrimary` wants it: the unique field is zeros in the low range, empty in the high.
    pub fn public(self) -> Public {
        let (name_alg, symmetric) = match self {
            Self::RsaL1 | Self::P256L2 | Self::RsaH1 | Self::P256H2 => (HashAlg::Sha256, Symmetric::Aes128Cfb),
            Self::P384H3 | Self::Rsa3072H6 | Self::Rsa4096H7 => (HashAlg::Sha384, Symmetric::Aes256Cfb),
            Self::P521H4 => (HashAlg::Sha512, Symmetric::Aes256Cfb),
        };
        let low = Attributes::FIXED_TPM
            | Attributes::FIXED_PARENT
            | Attributes::SENSITIVE_DATA_ORIGIN
            | Attributes::ADMIN_WITH_POLICY
            | Attributes::RESTRICTED
            | Attributes::DECRYPT;
        let (attributes, auth_policy) = if self.is_high_range() {
            (low | Attributes::USER_WITH_AUTH, policy_b(name_alg))
        } else {
            (low, policy_a(name_alg))
        };
        let key = match self {
            Self::RsaL1 => PublicKey::Rsa { bits: 2048, exponent: 0, modulus: vec![0; 256] },
            Self::RsaH1 => PublicKey::Rsa { bits: 2048, exponent: 0, modulus: Vec::new() },
            Self::Rsa3072H6 => PublicKey::Rsa { bits: 3072, exponent: 0, modulus: Vec::new() },
            Self::Rsa4096H7 => PublicKey::Rsa { bits: 4096, exponent: 0, modulus: Vec::new() },
            Self::P256L2 => ecc(Curve::P256, 32),
            Self::P256H2 => ecc(Curve::P256, 0),
            Self::P384H3 => ecc(Curve::P384, 0),
            Self::P521H4 => ecc(Curve::P521, 0),
        };
        Public { name_alg, attributes, auth_policy, symmetric, scheme: KeyScheme::Null, key }
    }

    /// NV index of the certificate (profile, section 2.2.1.4 and 2.2.1.5).
    pub const fn certificate_index(self) -> u32 {
        match self {
            Self::RsaL1 => 0x01c0_0002,
            Self::P256L2 => 0x01c0_000a,
            Self::RsaH1 => 0x01c0_0012,
            Self::P256H2 => 0x01c0_0014,
            Self::P384H3 => 0x01c0_0016,
            Self::P521H4 => 0x01c0_0018,
            Self::Rsa3072H6 => 0x01c0_001c,
            Self::Rsa4096H7 => 0x01c0_001e,
        }
    }

    /// NV index of the nonce that a manufacturer may have put into the unique field; the low range only.
    pub const fn nonce_index(self) -> Option<u32> {
        if self.is_high_range() { None } else { Some(self.certificate_index() + 1) }
    }

    /// Whether the key's policy is `PolicyB`, an OR whose first branch is `PolicyA`.
    pub const fn is_high_range(self) -> bool {
        !matches!(self, Self::RsaL1 | Self::P256L2)
    }
}

impl std::fmt::Display for EkTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The attestation key: a restricted ECDSA P-256 signing key, which signs nothing that a TPM did not make itself.
/// Not subject to dictionary-attack protection, so that an unclean power-off never locks a node out.
pub fn attestation_key() -> Public {
    Public {
        name_alg: HashAlg::Sha256,
        attributes: Attributes::FIXED_TPM
            | Attributes::FIXED_PARENT
            | Attributes::SENSITIVE_DATA_ORIGIN
            | Attributes::USER_WITH_AUTH
            | Attributes::NO_DA
            | Attributes::RESTRICTED
            | Attributes::SIGN,
        auth_policy: Vec::new(),
        symmetric: Symmetric::Null,
        scheme: KeyScheme::Ecdsa(HashAlg::Sha256),
        key: ecc(Curve::P256, 0),
    }
}

/// A P-256 storage key to which session salts are encrypted when the endorsement key is RSA or on P-521.
pub fn salt_key() -> Public {
    Public {
        name_alg: HashAlg::Sha256,
        attributes: Attributes::FIXED_TPM
            | Attributes::FIXED_PARENT
            | Attributes::SENSITIVE_DATA_ORIGIN
            | Attributes::USER_WITH_AUTH
            | Attributes::NO_DA
            | Attributes::RESTRICTED
            | Attributes::DECRYPT,
        auth_policy: Vec::new(),
        symmetric: Symmetric::Aes128Cfb,
        scheme: KeyScheme::Null,
        key: ecc(Curve::P256, 0),
    }
}

fn ecc(curve: Curve, unique: usize) -> PublicKey {
    PublicKey::Ecc { curve, point: EccPoint { x: vec![0; unique], y: vec![0; unique] } }
}
