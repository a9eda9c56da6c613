//! Documents of a cluster that is kept in its API server: `ConfigMap`s whose keys are the files of a cluster directory. They are read
//! here, for services and for the command line.

use crate::error::{ContentError, StoreError};
use crate::objects::{NAMESPACE, POLICY_MAP, REFERENCES_MAP, REVISIONS_MAP};
use crate::revisions::Revisions;
use crate::store::{MAX_CONFIG, POLICY, REVISIONS};
use crate::trust::MAX_MANIFESTS;
use latchkey_attestation::reference::Signature;
use latchkey_attestation::{AuthenticManifest, ManifestFile, Policy, References, Refusal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a document, by name.
pub type Data = BTreeMap<String, String>;

/// How a document is called in messages.
pub fn path_of(map: &str, key: &str) -> PathBuf {
    Path::new("configmaps").join(NAMESPACE).join(map).join(key)
}

/// The policy in [`POLICY_MAP`].
///
/// # Errors
/// [`StoreError`], also when there is none.
pub fn policy_in(data: &Data) -> Result<Policy, StoreError> {
    let path = path_of(POLICY_MAP, POLICY);
    let Some(text) = data.get(POLICY) else {
        return Err(StoreError::malformed(&path)(ContentError::Rule("there is no policy".to_owned())));
    };
    Policy::from_json(text.as_bytes()).map_err(|refusal| StoreError::malformed(&path)(refusal.into()))
}

/// The manifests in [`REFERENCES_MAP`] by their keys, each signed as the policy demands and none older than what was accepted, before
/// they are held against the policy together. A manifest and its signature change together: they are keys of one object.
///
/// # Errors
/// [`StoreError`].
pub fn manifests_in(
    data: &Data,
    policy: &Policy,
    revisions: &Revisions,
) -> Result<Vec<(String, AuthenticManifest)>, StoreError> {
    let mut found = Vec::new();
    for (count, (key, text)) in data.iter().filter(|(key, _)| key.strip_suffix(".json").is_some()).enumerate() {
        let path = path_of(REFERENCES_MAP, key);
        let rule = |sentence: String| StoreError::malformed(&path)(ContentError::Rule(sentence));
        if count >= MAX_MANIFESTS {
            return Err(rule(format!("more than {MAX_MANIFESTS} reference manifests")));
        }
        let signature = data.get(&signature_key(key));
        if text.len() > MAX_CONFIG || signature.is_some_and(|signature| signature.len() > Signature::MAX) {
            return Err(rule("the manifest or its signature is too large".to_owned()));
        }
        let file = ManifestFile::new(text.clone().into_bytes(), signature.map(|text| text.clone().into_bytes()));
        let judged = file.under(policy).and_then(|manifest| {
            revisions.check_follows(&manifest)?;
            Ok(manifest)
        });
        let manifest = judged.map_err(|refusal| StoreError::malformed(&path)(refusal.into()))?;
        found.push((key.clone(), manifest));
    }
    Ok(found)
}

/// The same, and all that the policy names.
///
/// # Errors
/// [`StoreError`].
pub fn references_in(data: &Data, policy: &Policy, revisions: &Revisions) -> Result<References, StoreError> {
    let found = manifests_in(data, policy, revisions)?.into_iter().map(|(_, manifest)| manifest).collect();
    let fault = |refusal: Refusal| StoreError::malformed(&path_of(POLICY_MAP, POLICY))(refusal.into());
    References::new(policy, found).map_err(fault)
}

/// The key of the signature of the manifest under this key.
pub fn signature_key(manifest: &str) -> String {
    format!("{manifest}.minisig")
}

/// The revisions in [`REVISIONS_MAP`]; none where nothing was accepted yet.
///
/// # Errors
/// [`StoreError`].
pub fn revisions_in(data: &Data) -> Result<Revisions, StoreError> {
    let Some(json) = data.get(REVISIONS) else { return Ok(Revisions::none()) };
    Revisions::parse(json.as_bytes()).map_err(StoreError::malformed(&path_of(REVISIONS_MAP, REVISIONS)))
}

/// Changes the revisions in [`REVISIONS_MAP`] so that these are remembered; whether something is to be written.
///
/// # Errors
/// [`StoreError`]: `reference-rolled-back` and `reference-serial-reused` among them, if a newer revision was accepted meanwhile.
pub fn remember_in(data: &mut Data, references: &References, now: u64) -> Result<bool, StoreError> {
    let mut revisions = revisions_in(data)?;
    if revisions.has_all(references) {
        return Ok(false);
    }
    let mut newer = false;
    for manifest in references.iter() {
        let accepted = revisions.accept(manifest, now);
        newer |= accepted.map_err(StoreError::malformed(&path_of(REVISIONS_MAP, REVISIONS)))?;
    }
    data.insert(REVISIONS.to_owned(), revisions.to_json());
    Ok(newer)
}

/// Remembers this revision in the place of a newer one of its name. For an operator who asks for it, never for a service.
///
/// # Errors
/// [`StoreError`].
pub fn go_back_in(data: &mut Data, manifest: &AuthenticManifest, now: u64) -> Result<(), StoreError> {
    let mut revisions = revisions_in(data)?;
    revisions.replace(manifest, now).map_err(StoreError::malformed(&path_of(REVISIONS_MAP, REVISIONS)))?;
    data.insert(REVISIONS.to_owned(), revisions.to_json());
    Ok(())
}
