//! Which manifests a policy takes, from which version of an image on, and whose word they must be.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{empty, malformed};
use crate::name::ManifestName;
use crate::parse::ImageVersion;
use crate::refusal::Refusal;
use crate::signature::SignerKey;

/// A manifest whose images are admitted, from which version on, and by whom it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceRule {
    /// Name of the manifest.
    pub manifest: ManifestName,
    /// Images below it are refused although their measurements are known.
    pub minimum_version: ImageVersion,
    /// Whose word the manifest must be.
    pub signers: Signers,
}

/// Whose word a manifest must be. There is no default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signers {
    /// One of these keys signed it.
    Keys(Vec<SignerKey>),
    /// Whoever can write the file is trusted.
    TrustLocalFile,
}

impl Signers {
    /// The keys; none for a trusted local file.
    pub fn keys(&self) -> &[SignerKey] {
        match self {
            Self::Keys(keys) => keys,
            Self::TrustLocalFile => &[],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReferenceRuleFile {
    manifest: ManifestName,
    minimum_version: ImageVersion,
    signers: Option<Vec<SignerKey>>,
    unsigned: Option<Unsigned>,
}

#[derive(Deserialize)]
enum Unsigned {
    #[serde(rename = "trust-local-file")]
    TrustLocalFile,
}

impl TryFrom<ReferenceRuleFile> for ReferenceRule {
    type Error = Refusal;

    fn try_from(file: ReferenceRuleFile) -> Result<Self, Refusal> {
        let ReferenceRuleFile { manifest, minimum_version, signers, unsigned } = file;
        let signers = match (signers, unsigned) {
            (Some(keys), None) => Signers::Keys(check_signers(keys, &manifest)?),
            (None, Some(Unsigned::TrustLocalFile)) => Signers::TrustLocalFile,
            (Some(_), Some(_)) => {
                return Err(malformed(format!("manifest {manifest} has `signers` and is `unsigned`: say one")));
            }
            (None, None) => {
                let detail = "say who may sign it (`signers`), or `\"unsigned\": \"trust-local-file\"`";
                return Err(malformed(format!("manifest {manifest}: {detail}")));
            }
        };
        Ok(Self { manifest, minimum_version, signers })
    }
}

/// Two keys of one number could not be told apart by a signature.
fn check_signers(keys: Vec<SignerKey>, manifest: &ManifestName) -> Result<Vec<SignerKey>, Refusal> {
    if keys.is_empty() {
        return Err(empty(&format!("manifest {manifest}: `signers` lists no key")));
    }
    let ids: BTreeSet<_> = keys.iter().map(SignerKey::id).collect();
    if ids.len() != keys.len() || keys.len() > MAX_SIGNERS {
        return Err(malformed(format!("manifest {manifest}: a key twice, or more than {MAX_SIGNERS}, in `signers`")));
    }
    Ok(keys)
}

pub(super) fn check_references(references: &[ReferenceRule]) -> Result<(), Refusal> {
    if references.is_empty() {
        return Err(empty("`references` names no manifest"));
    }
    let names: BTreeSet<_> = references.iter().map(|rule| &rule.manifest).collect();
    if names.len() != references.len() {
        return Err(malformed("`references` names a manifest twice"));
    }
    Ok(())
}

/// A signature is checked against the key it names; more are a mistake.
const MAX_SIGNERS: usize = 16;
