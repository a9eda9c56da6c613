//! The manifests of one policy, checked against it when they are loaded and not when a node is waiting.

use std::collections::BTreeMap;

use super::{Image, ManifestName, ReferenceValues};
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};

/// All manifests that a policy names, and only those.
#[derive(Debug, Clone)]
pub struct References(BTreeMap<ManifestName, ReferenceValues>);

impl References {
    /// Brings a policy and its manifests together.
    ///
    /// # Errors
    /// * `reference-missing`: the policy names a manifest that is not in `manifests`.
    /// * `reference-malformed`: a manifest is there twice, or the policy does not name it.
    /// * `reference-unfit`: an image has no value for a PCR the policy enforces, or enforces one the policy does not quote.
    pub fn new(policy: &Policy, manifests: Vec<ReferenceValues>) -> Result<Self, Refusal> {
        let mut by_name = BTreeMap::new();
        for manifest in manifests {
            if !policy.references.iter().any(|rule| rule.manifest == manifest.name) {
                return Err(malformed(format!("the policy does not name manifest {}", manifest.name)));
            }
            manifest.images.iter().try_for_each(|image| check_fit(policy, &manifest.name, image))?;
            if let Some(twice) = by_name.insert(manifest.name.clone(), manifest) {
                return Err(malformed(format!("manifest {} is there twice", twice.name)));
            }
        }
        match policy.references.iter().find(|rule| !by_name.contains_key(&rule.manifest)) {
            None => Ok(Self(by_name)),
            Some(rule) => {
                Err(Refusal::new(ReasonCode::ReferenceMissing, format!("manifest {} is not loaded", rule.manifest)))
            }
        }
    }

    /// The manifest of this name.
    pub fn manifest(&self, name: &ManifestName) -> Option<&ReferenceValues> {
        self.0.get(name)
    }

    /// All manifests, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ReferenceValues> {
        self.0.values()
    }
}

fn check_fit(policy: &Policy, manifest: &ManifestName, image: &Image) -> Result<(), Refusal> {
    let unfit = |detail| Refusal::new(ReasonCode::ReferenceUnfit, format!("{manifest}/{}: {detail}", image.label()));
    if let Some(index) = policy.enforce.iter().find(|index| !image.pcrs().contains_key(index)) {
        return Err(unfit(format!("the policy enforces PCR {index}, which has no value here")));
    }
    let unquoted = image.enforced().without(policy.selection());
    if !unquoted.is_empty() {
        return Err(unfit(format!("enforces PCRs {unquoted}, which the policy does not quote")));
    }
    Ok(())
}

fn malformed(detail: String) -> Refusal {
    Refusal::new(ReasonCode::ReferenceMalformed, detail)
}
