//! The manifests of one policy, checked against it when they are loaded and not when a node is waiting.

use std::collections::BTreeMap;

use super::authentic::AuthenticManifest;
use super::{Image, ManifestName, PlatformProfile, malformed};
use crate::parse::Digest;
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};

/// All manifests that a policy names, and only those, each by whom the policy wants it to be.
#[derive(Debug, Clone)]
pub struct References(BTreeMap<ManifestName, AuthenticManifest>);

impl References {
    /// No manifest: what a policy goes with that names none, [`Policy::of_nobody`].
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Brings a policy and its manifests together.
    ///
    /// # Errors
    /// * `reference-missing`: the policy names a manifest that is not in `manifests`.
    /// * `reference-malformed`: a manifest is there twice, or the policy does not name it.
    /// * `reference-signature-missing`, `reference-signature-unknown-signer`: a manifest is not signed by a key that its own
    ///   rule names.
    /// * `reference-unfit`: an image has no value for a PCR the policy enforces, or enforces one the policy does not quote; or the
    ///   policy takes known firmware alone, and no type of machine lists any.
    pub fn new(policy: &Policy, manifests: Vec<AuthenticManifest>) -> Result<Self, Refusal> {
        let mut by_name = BTreeMap::new();
        for manifest in manifests {
            let name = manifest.values().name().clone();
            let Some(rule) = policy.references.iter().find(|rule| rule.manifest == name) else {
                return Err(malformed(format!("the policy does not name manifest {name}")));
            };
            manifest.check_authority(rule)?;
            manifest.values().images().iter().try_for_each(|image| check_fit(policy, &name, image))?;
            if by_name.insert(name.clone(), manifest).is_some() {
                return Err(malformed(format!("manifest {name} is there twice")));
            }
        }
        if let Some(rule) = policy.references.iter().find(|rule| !by_name.contains_key(&rule.manifest)) {
            let detail = format!("manifest {} is not loaded", rule.manifest);
            return Err(Refusal::new(ReasonCode::ReferenceMissing, detail));
        }
        let references = Self(by_name);
        if policy.demands_known_firmware() && references.firmware().next().is_none() {
            let detail = "the policy takes known firmware alone, and no type of machine lists any (values of PCR 0 and 2): \
                          `latchkey reference add-firmware` adds one";
            return Err(Refusal::new(ReasonCode::ReferenceUnfit, detail));
        }
        Ok(references)
    }

    /// The firmware that is known, with the manifest and the type of machine that list it; of a revoked image's, too, since its
    /// firmware is not the image.
    pub(crate) fn firmware(&self) -> impl Iterator<Item = (&ManifestName, &PlatformProfile, [Digest; 2])> {
        self.iter().map(AuthenticManifest::values).flat_map(|values| {
            let machines = values.images().iter().flat_map(Image::machines);
            machines.filter_map(move |machine| Some((values.name(), machine, machine.firmware()?)))
        })
    }

    /// The manifest of this name.
    pub fn manifest(&self, name: &ManifestName) -> Option<&AuthenticManifest> {
        self.0.get(name)
    }

    /// All manifests, by name.
    pub fn iter(&self) -> impl Iterator<Item = &AuthenticManifest> {
        self.0.values()
    }
}

fn check_fit(policy: &Policy, manifest: &ManifestName, image: &Image) -> Result<(), Refusal> {
    image.machines().iter().try_for_each(|machine| check_machine(policy, machine, manifest, image))
}

fn check_machine(
    policy: &Policy,
    machine: &PlatformProfile,
    manifest: &ManifestName,
    image: &Image,
) -> Result<(), Refusal> {
    let unfit = |detail| {
        let detail = format!("{manifest}/{} on {}: {detail}", image.label(), machine.name());
        Refusal::new(ReasonCode::ReferenceUnfit, detail)
    };
    if let Some(index) = policy.enforce.iter().find(|index| !machine.pcrs().contains_key(index)) {
        return Err(unfit(format!("the policy enforces PCR {index}, which has no value here")));
    }
    let unquoted = machine.enforced().without(policy.selection());
    if !unquoted.is_empty() {
        return Err(unfit(format!("enforces PCRs {unquoted}, which the policy does not quote")));
    }
    Ok(())
}
