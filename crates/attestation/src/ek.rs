//! The endorsement key: its form and its identity.

use std::fmt;

use latchkey_tpm::wire::{EccPoint, EkTemplate, HashAlg, Public, PublicKey};
use serde::{Deserialize, Serialize};

use crate::parse::Digest;
use crate::refusal::{ReasonCode, Refusal};
use crate::spki::public_key;

/// A TPM's stable identity: SHA-256 of its endorsement key's `TPMT_PUBLIC`, in which coordinates are padded to the
/// curve's size so that one key has one digest.
///
/// Where a policy trusts the attestation key (`ak-chain` or `ak-azure-hcl`), it is the digest of that key's `TPMT_PUBLIC` instead:
/// in admissions, records, denials and a policy's `denied_ek_sha256`, which keep their names. [`KnownBy`](crate::KnownBy) says which.
///
/// The same as `tpm2_readpublic -c HANDLE -f tpmt -o ek.tpmt && sha256sum ek.tpmt`. In JSON and on display 64 lower-case
/// hexadecimal digits. Policies pin it, node records are kept by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EkDigest(Digest);

impl EkDigest {
    /// The digest of this endorsement key.
    ///
    /// # Errors
    /// `ek-malformed`, `ek-template-unknown`.
    pub fn of_public_area(tpmt_public: &[u8]) -> Result<Self, Refusal> {
        EndorsementKey::parse(tpmt_public).map(|ek| ek.digest)
    }

    /// The digest of the endorsement key with this `SubjectPublicKeyInfo` (DER), as clouds and tpm2-tools give it. Which template it
    /// was made from, such a key does not say, and the digest depends on it: it must be the only one of `allowed` of its kind.
    ///
    /// # Errors
    /// `ek-malformed`: no key of a template; of none that is allowed, or of several.
    pub fn of_subject_public_key_info(der: &[u8], allowed: impl Fn(EkTemplate) -> bool) -> Result<Self, Refusal> {
        let refuse = |detail: String| Refusal::new(ReasonCode::EkMalformed, detail);
        let no =
            || refuse("no key of P-256, P-384, P-521 or RSA 2048, 3072 or 4096 with the exponent 65537".to_owned());
        let key = public_key(der).ok_or_else(no)?;
        let is_of = |template: &EkTemplate| match (&key, template.public().key) {
            (PublicKey::Rsa { bits, .. }, PublicKey::Rsa { bits: other, .. }) => *bits == other,
            (PublicKey::Ecc { curve, .. }, PublicKey::Ecc { curve: other, .. }) => *curve == other,
            _ => false,
        };
        let candidates: Vec<_> =
            EkTemplate::ALL.into_iter().filter(|template| is_of(template) && allowed(*template)).collect();
        match candidates.as_slice() {
            [template] => Ok(Self::of(&Public { key, ..template.public() })),
            [] => Err(refuse("a key of a kind that none of the endorsement-key templates in question has".to_owned())),
            several => {
                let names: Vec<_> = several.iter().map(|template| template.name()).collect();
                Err(refuse(format!(
                    "the key may be of {}: its public area (TPMT_PUBLIC) says which",
                    names.join(" or ")
                )))
            }
        }
    }

    /// Reads 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        Digest::from_hex(text).map(Self)
    }

    /// The digest of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest(bytes))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The identity of a TPM whose attestation key is certified.
    pub(crate) fn of_attestation_key(ak: &Public) -> Result<Self, Refusal> {
        canonical(ak.clone()).map(|ak| Self::of(&ak))
    }

    fn of(canonical: &Public) -> Self {
        let mut digest = Digest::ZERO;
        digest.0.copy_from_slice(&HashAlg::Sha256.digest(&[&canonical.marshal()]));
        Self(digest)
    }
}

impl fmt::Display for EkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An endorsement key made from one of the TCG's templates.
#[derive(Debug)]
pub(crate) struct EndorsementKey {
    pub(crate) public: Public,
    pub(crate) digest: EkDigest,
    pub(crate) template: EkTemplate,
}

impl EndorsementKey {
    pub(crate) fn parse(tpmt_public: &[u8]) -> Result<Self, Refusal> {
        let malformed = |error: latchkey_tpm::wire::WireError| Refusal::new(ReasonCode::EkMalformed, error.to_string());
        let public = Public::parse(tpmt_public).map_err(malformed)?;
        let Some(template) = public.endorsement_template() else {
            let detail = "attributes, policy, cipher and key type together are those of no TCG template";
            return Err(Refusal::new(ReasonCode::EkTemplateUnknown, detail));
        };
        let public = canonical(public)?;
        let digest = EkDigest::of(&public);
        Ok(Self { public, digest, template })
    }
}

/// Pads coordinates to the curve's size: a TPM may leave out leading zeros, and one TPM must not get two identities.
fn canonical(mut public: Public) -> Result<Public, Refusal> {
    if let PublicKey::Ecc { curve, point } = &mut public.key {
        let padded = point.uncompressed(*curve).and_then(|bytes| EccPoint::from_uncompressed(&bytes, *curve));
        *point =
            padded.ok_or_else(|| Refusal::new(ReasonCode::EkKeyInvalid, "coordinates are longer than the curve's"))?;
    }
    Ok(public)
}
