//! A pinned key: outside a cluster a join service proves itself with a P-256 key whose hash is in the node's measured
//! command line.

use std::collections::BTreeSet;
use std::fmt;

use latchkey_attestation::parse::Bytes;

use super::{Appraisal, AppraisalError, Attester, Claim, PeerProof, ProofError, ProofRequest, Verifier};
use crate::binding::Binding;
use crate::message::{Demand, Evidence, Identity, KeyEvidence, KeyIdentity};
use crate::purpose::{Kind, Kinds};
use crate::refusal::PeerRefusal;
use crate::tls::{P256Key, Spki, SpkiHash};

/// Before the binding in what is signed, so that the key's signatures mean nothing elsewhere.
const SIGNATURE_LABEL: &[u8] = b"latchkey pinned key v1\0";

/// Proves possession of a P-256 key by signing the binding.
pub struct PinnedKeyAttester {
    key: P256Key,
    spki: Spki,
}

impl PinnedKeyAttester {
    /// Reads the key: PKCS #8 in DER, with the public key inside (what `openssl genpkey` writes).
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, PinnedKeyError> {
        Self::new(P256Key::from_pkcs8(der).map_err(|_| PinnedKeyError)?)
    }

    /// A fresh key, for tests and tools that print what to pin.
    pub fn generate() -> Result<Self, PinnedKeyError> {
        Self::new(P256Key::generate().map_err(|_| PinnedKeyError)?)
    }

    fn new(key: P256Key) -> Result<Self, PinnedKeyError> {
        let spki = Spki::from_point(key.point().map_err(|_| PinnedKeyError)?);
        Ok(Self { key, spki })
    }

    /// What the peer has to pin.
    pub fn hash(&self) -> SpkiHash {
        self.spki.hash()
    }
}

impl fmt::Debug for PinnedKeyAttester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedKeyAttester").field("hash", &self.hash()).finish_non_exhaustive()
    }
}

impl Attester for PinnedKeyAttester {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::PinnedKey])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        let spki = Bytes::new(self.spki.as_der().to_vec()).ok_or_else(unusable)?;
        Ok(Identity::PinnedKey(KeyIdentity { spki }))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let signature = self.key.sign(&signed_message(request.binding())).map_err(|_| unusable())?;
        let signature = Bytes::new(signature).ok_or_else(unusable)?;
        Ok(Evidence::PinnedKey(KeyEvidence { signature }))
    }
}

/// Accepts the holder of one of these keys.
#[derive(Clone, Debug)]
pub struct PinnedKeyVerifier {
    pins: BTreeSet<SpkiHash>,
}

impl PinnedKeyVerifier {
    /// Accepts these keys. Without any it accepts nobody.
    pub fn new(pins: impl IntoIterator<Item = SpkiHash>) -> Self {
        Self { pins: pins.into_iter().collect() }
    }
}

impl Verifier for PinnedKeyVerifier {
    fn accepts(&self) -> Kinds {
        Kinds::of(&[Kind::PinnedKey])
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError> {
        let Identity::PinnedKey(claimed) = claim.identity else {
            return Err(PeerRefusal::KindNotAccepted { accepted: self.accepts(), got: claim.identity.kind() }.into());
        };
        let Some(spki) = Spki::from_der(claimed.spki.as_slice()) else {
            return Err(PeerRefusal::KeyNotPinned { got: None }.into());
        };
        if !self.pins.contains(&spki.hash()) {
            return Err(PeerRefusal::KeyNotPinned { got: Some(spki.hash()) }.into());
        }
        Ok((Demand::PinnedKey, Box::new(Signature { spki })))
    }
}

struct Signature {
    spki: Spki,
}

impl Appraisal for Signature {
    fn conclude(self: Box<Self>, evidence: &Evidence, binding: &Binding, _: u64) -> Result<PeerProof, PeerRefusal> {
        let Evidence::PinnedKey(shown) = evidence else {
            return Err(PeerRefusal::KindChanged { expected: Kind::PinnedKey, got: evidence.kind() });
        };
        let key = self.spki.hash();
        if self.spki.verifies(&signed_message(binding), shown.signature.as_slice()) {
            Ok(PeerProof::PinnedKey(PinnedPeer { key }))
        } else {
            Err(PeerRefusal::KeySignature { key })
        }
    }
}

/// Witness: the peer of this session holds this pinned key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedPeer {
    key: SpkiHash,
}

impl PinnedPeer {
    /// The key.
    pub const fn key(&self) -> SpkiHash {
        self.key
    }
}

/// No usable P-256 key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a usable P-256 key: expected PKCS #8 in DER with the public key, as `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -outform DER` writes it"
)]
pub struct PinnedKeyError;

fn signed_message(binding: &Binding) -> Vec<u8> {
    [SIGNATURE_LABEL, binding.as_bytes()].concat()
}

fn unusable() -> ProofError {
    ProofError::new(Kind::PinnedKey, PinnedKeyError)
}
