//! From a file to a manifest that may be believed.

use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::ReferenceValues;
use crate::parse::Digest;
use crate::policy::{Policy, ReferenceRule, Signers};
use crate::refusal::{ReasonCode, Refusal};
use crate::signature::{KeyId, Signature, SignerKey, unknown_signer};

/// A manifest's file, and its signature's if there is one, as they were found: nothing is believed, nothing is parsed.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    manifest: Vec<u8>,
    signature: Option<Vec<u8>>,
}

impl ManifestFile {
    /// What was found. Sizes are checked before anything else is.
    pub const fn new(manifest: Vec<u8>, signature: Option<Vec<u8>>) -> Self {
        Self { manifest, signature }
    }

    /// The manifest, if a key that the policy names for *some* manifest signed it, or if the policy trusts *some* manifest
    /// as a local file. Whether that is this one, [`References::new`](super::References::new) checks: the name stands in the
    /// file, and the file is parsed last.
    ///
    /// # Errors
    /// `reference-signature-missing`, `-malformed`, `-unknown-signer`, `-invalid`, `-unsupported`; then those of
    /// [`ReferenceValues::from_json`].
    pub fn under(self, policy: &Policy) -> Result<AuthenticManifest, Refusal> {
        let signers: Vec<SignerKey> = policy.references.iter().flat_map(|rule| rule.signers.keys()).copied().collect();
        let trusts_files = policy.references.iter().any(|rule| rule.signers == Signers::TrustLocalFile);
        if signers.is_empty() {
            return self.as_local_file();
        }
        match self.signed_by(&signers) {
            Err((refusal, file)) if trusts_files && is_no_signature_of_ours(refusal.code()) => file.as_local_file(),
            Err((refusal, _)) => Err(refusal),
            Ok(manifest) => Ok(manifest),
        }
    }

    /// The manifest, if one of these keys signed it.
    ///
    /// # Errors
    /// As [`Self::under`].
    pub fn signed_by_one_of(self, signers: &[SignerKey]) -> Result<AuthenticManifest, Refusal> {
        self.signed_by(signers).map_err(|(refusal, _)| refusal)
    }

    /// The manifest, because whoever names the file vouches for it.
    ///
    /// # Errors
    /// Those of [`ReferenceValues::from_json`].
    pub fn as_local_file(self) -> Result<AuthenticManifest, Refusal> {
        let signature = self.signature.as_deref().and_then(|text| Signature::parse(text).ok());
        let authority = Authority::LocalFile { unverified_signer: signature.map(|signature| signature.key_id()) };
        Verified { manifest: self.manifest, authority }.parse()
    }

    /// The file comes back with the refusal, so that another rule can be tried.
    fn signed_by(self, signers: &[SignerKey]) -> Result<AuthenticManifest, (Refusal, Self)> {
        match self.check_signature(signers) {
            Ok(authority) => {
                let verified = Verified { manifest: self.manifest, authority };
                verified.parse().map_err(|refusal| (refusal, Self::new(Vec::new(), None)))
            }
            Err(refusal) => Err((refusal, self)),
        }
    }

    fn check_signature(&self, signers: &[SignerKey]) -> Result<Authority, Refusal> {
        if self.manifest.len() > ReferenceValues::MAX_JSON {
            return Err(super::malformed(format!("more than {} bytes", ReferenceValues::MAX_JSON)));
        }
        let missing =
            || Refusal::new(ReasonCode::ReferenceSignatureMissing, "there is no signature beside the manifest");
        let signature = Signature::parse(self.signature.as_deref().ok_or_else(missing)?)?;
        // Key numbers are chosen by whoever makes a key, and may be chosen to collide.
        let mut refusal = unknown_signer(signature.key_id());
        for signer in signers.iter().filter(|signer| signer.id() == signature.key_id()) {
            match signer.verify(&self.manifest, &signature) {
                Ok(comment) => return Ok(Authority::Signed { signer: *signer, trusted_comment: comment.to_owned() }),
                Err(reason) => refusal = reason,
            }
        }
        Err(refusal)
    }
}

/// Whether there is nothing that claims to be signed by a key of the policy: only then may a file go unsigned.
fn is_no_signature_of_ours(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::ReferenceSignatureMissing | ReasonCode::ReferenceSignatureUnknownSigner)
}

/// Bytes whose authority is known, not parsed yet.
struct Verified {
    manifest: Vec<u8>,
    authority: Authority,
}

impl Verified {
    fn parse(self) -> Result<AuthenticManifest, Refusal> {
        let values = ReferenceValues::from_json(&self.manifest)?;
        Ok(AuthenticManifest { values, sha256: sha256(&self.manifest), authority: self.authority })
    }
}

/// The witness that a manifest is by whom it is said to be. Only a check of its signature makes one, or the caller's word
/// for a local file, which no rule with signers accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticManifest {
    values: ReferenceValues,
    authority: Authority,
    sha256: Digest,
}

impl AuthenticManifest {
    /// Values that this very program made, as if they were read from a local file.
    pub fn local(values: ReferenceValues) -> Self {
        let sha256 = sha256(values.to_json().as_bytes());
        Self { values, authority: Authority::LocalFile { unverified_signer: None }, sha256 }
    }

    /// What the manifest says.
    pub fn values(&self) -> &ReferenceValues {
        &self.values
    }

    /// Why it is believed.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// SHA-256 of the file.
    pub fn sha256(&self) -> Digest {
        self.sha256
    }

    /// What is remembered of it.
    pub fn revision(&self) -> Revision {
        Revision { serial: self.values.serial(), sha256: self.sha256 }
    }

    /// Whether it may follow a revision of the same name that was accepted earlier.
    ///
    /// # Errors
    /// `reference-rolled-back` when that one is newer, `reference-serial-reused` when it has the same serial and other
    /// content.
    pub fn check_follows(&self, accepted: &Revision) -> Result<(), Refusal> {
        let (name, got, known) = (self.values.name(), self.values.serial(), accepted.serial);
        if got < known {
            let detail = format!("manifest {name} has serial {got}, and serial {known} was accepted before");
            return Err(Refusal::new(ReasonCode::ReferenceRolledBack, detail));
        }
        if got == known && self.sha256 != accepted.sha256 {
            let detail = format!("manifest {name} with serial {got} was accepted before with other content");
            return Err(Refusal::new(ReasonCode::ReferenceSerialReused, detail));
        }
        Ok(())
    }

    pub(super) fn check_authority(&self, rule: &ReferenceRule) -> Result<(), Refusal> {
        let name = &rule.manifest;
        match (&rule.signers, &self.authority) {
            (Signers::TrustLocalFile, _) => Ok(()),
            (Signers::Keys(keys), Authority::Signed { signer, .. }) if keys.contains(signer) => Ok(()),
            (_, Authority::Signed { signer, .. }) => {
                let detail = format!("manifest {name} is signed by key {}", signer.id());
                Err(Refusal::new(ReasonCode::ReferenceSignatureUnknownSigner, detail))
            }
            (_, Authority::LocalFile { unverified_signer: Some(id) }) => {
                let detail = format!("manifest {name} says it is signed by key {id}");
                Err(Refusal::new(ReasonCode::ReferenceSignatureUnknownSigner, detail))
            }
            (_, Authority::LocalFile { unverified_signer: None }) => {
                let detail = format!("manifest {name} is not signed");
                Err(Refusal::new(ReasonCode::ReferenceSignatureMissing, detail))
            }
        }
    }
}

/// Why a manifest is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Authority {
    /// A key that the verifier names signed it.
    Signed {
        /// The key.
        signer: SignerKey,
        /// What the signer said beside, signed too.
        trusted_comment: String,
    },
    /// Whoever can write the file.
    LocalFile {
        /// The key that a signature beside it names. Nobody checked.
        #[serde(skip_serializing_if = "Option::is_none")]
        unverified_signer: Option<KeyId>,
    },
}

/// An revision of a manifest, as a verifier remembers it against rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Its serial.
    pub serial: u64,
    /// SHA-256 of its file.
    pub sha256: Digest,
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut out = Digest::ZERO;
    out.0.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}
