//! Which image is this? All enforced PCRs must be those of one machine type of one image: values of two never combine.

use super::most_specific::{MostSpecific, most_specific};
use super::{AdmittedImage, Comparison, DifferingPcr, FirmwareStanding, Warning, enforced};
use crate::parse::{Component, PcrSet, PcrValues};
use crate::policy::{Policy, ReferenceRule};
use crate::reference::{AuthenticManifest, Image, PlatformProfile, Reference, ReferenceValues, References};
use crate::refusal::{Difference, ReasonCode, Refusal};

/// The matching image and what is only warned about.
pub(crate) struct Match {
    pub(crate) image: AdmittedImage,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) firmware: FirmwareStanding,
    /// Registers that must have the machine type's value.
    pub(crate) enforced: PcrSet,
}

/// Finds the image that `pcrs` are the measurements of, and checks that it may run, and on this firmware.
pub(crate) fn match_image(
    policy: &Policy,
    pcrs: &PcrValues,
    references: &References,
    now: u64,
) -> Result<Match, Refusal> {
    let mut closest: Option<Candidate<'_>> = None;
    let mut forbidden = None;
    let mut admitted = None;
    for rule in &policy.references {
        let missing =
            || Refusal::new(ReasonCode::ReferenceMissing, format!("manifest {} is not loaded", rule.manifest));
        let manifest = references.manifest(&rule.manifest).ok_or_else(missing)?.values();
        for candidate in candidates(policy, pcrs, manifest) {
            if !candidate.differing.is_empty() {
                closest = Some(Candidate::closer(closest, candidate));
                continue;
            }
            match rule.admits(candidate.manifest, candidate.image, now) {
                Ok(()) => admitted = Some(candidate.quieter(admitted, policy, pcrs)),
                // The same measurements under another name or version are no way around a revocation.
                Err(refusal) if refusal.code() == ReasonCode::ImageRevoked => return Err(refusal),
                Err(refusal) => forbidden = forbidden.or(Some(refusal)),
            }
        }
    }
    match admitted {
        Some(candidate) => {
            let firmware = policy.check_firmware(pcrs, references)?;
            let (image, warnings) = (candidate.image(), candidate.warnings(policy, pcrs));
            Ok(Match { image, warnings, firmware, enforced: enforced(policy, candidate.machine) })
        }
        // An image that is known but may not run explains more than how far another one is.
        None => Err(forbidden.unwrap_or_else(|| explain(policy, closest.as_ref(), pcrs))),
    }
}

/// Every machine type of every image that the policy names, beside the evidence.
pub(crate) fn compare_all(policy: &Policy, pcrs: &PcrValues, references: &References, now: u64) -> Vec<Comparison> {
    let firmware = policy.check_firmware(pcrs, references).err();
    let of_rule = |rule: &ReferenceRule| {
        let manifest = references.manifest(&rule.manifest).map(AuthenticManifest::values);
        let candidates = manifest.into_iter().flat_map(|manifest| candidates(policy, pcrs, manifest));
        let compared = candidates.map(|candidate| candidate.comparison(policy, rule, pcrs, now));
        let on_firmware = |one: Comparison| Comparison { forbidden: one.forbidden.or_else(|| firmware.clone()), ..one };
        compared.map(on_firmware).collect::<Vec<_>>()
    };
    policy.references.iter().flat_map(of_rule).collect()
}

/// The machine type that these PCR values come closest to, among all that the policy names.
pub(crate) fn closest<'a>(
    policy: &'a Policy,
    pcrs: &'a PcrValues,
    references: &'a References,
) -> Option<&'a PlatformProfile> {
    let manifests = policy.references.iter().filter_map(|rule| references.manifest(&rule.manifest));
    let all = manifests.flat_map(|manifest| candidates(policy, pcrs, manifest.values()));
    all.fold(None, |best, candidate| Some(Candidate::closer(best, candidate))).map(|candidate| candidate.machine)
}

fn candidates<'a>(
    policy: &'a Policy,
    pcrs: &'a PcrValues,
    manifest: &'a ReferenceValues,
) -> impl Iterator<Item = Candidate<'a>> {
    let on_machines = move |image: &'a Image| {
        let machines = image.machines().iter();
        machines.map(move |machine| Candidate::compare(policy, pcrs, manifest, image, machine))
    };
    manifest.images().iter().flat_map(on_machines)
}

/// One machine type of one image, beside the evidence.
struct Candidate<'a> {
    manifest: &'a ReferenceValues,
    image: &'a Image,
    machine: &'a PlatformProfile,
    /// Enforced PCRs that do not have this machine type's value.
    differing: PcrSet,
}

impl<'a> Candidate<'a> {
    fn compare(
        policy: &Policy,
        pcrs: &PcrValues,
        manifest: &'a ReferenceValues,
        image: &'a Image,
        machine: &'a PlatformProfile,
    ) -> Self {
        let same = |index| match (machine.pcrs().get(&index), pcrs.value(index)) {
            (Some(reference), Some(got)) => reference.value == got,
            _ => false,
        };
        let differing = enforced(policy, machine).iter().filter(|&index| !same(index));
        let differing = differing.fold(PcrSet::EMPTY, |set, index| set.with(index).unwrap_or(set));
        Self { manifest, image, machine, differing }
    }

    /// The one with fewer differences; of equals the newer version.
    fn closer(best: Option<Self>, other: Self) -> Self {
        let key = |candidate: &Self| (candidate.differing.iter().count(), std::cmp::Reverse(candidate.image.version()));
        match best {
            Some(best) if key(&best) <= key(&other) => best,
            _ => other,
        }
    }

    fn most_specific(&self, policy: &Policy) -> Option<MostSpecific> {
        most_specific(self.differing, enforced(policy, self.machine))
    }

    fn label(&self) -> String {
        format!("{}/{} on {}", self.manifest.name(), self.image.label(), self.machine.name())
    }

    fn comparison(&self, policy: &Policy, rule: &ReferenceRule, pcrs: &PcrValues, now: u64) -> Comparison {
        let differing = self.differing.iter().map(|pcr| DifferingPcr {
            pcr,
            component: Component::of(pcr),
            expected: self.machine.pcrs().get(&pcr).map(|reference| reference.value),
            got: pcrs.value(pcr),
        });
        Comparison {
            image: self.image(),
            differing: differing.collect(),
            most_specific: self.most_specific(policy).map(|told| told.pcr),
            forbidden: rule.admits(self.manifest, self.image, now).err(),
        }
    }

    fn image(&self) -> AdmittedImage {
        AdmittedImage {
            manifest: self.manifest.name().clone(),
            serial: self.manifest.serial(),
            source: self.image.source(),
            name: self.image.name().to_owned(),
            version: self.image.version(),
            machine: self.machine.name().to_owned(),
        }
    }

    /// The one that was found before; or this one, where it is the same image and less is warned of: on the firmware that the machine
    /// has, of several that the image is listed with.
    fn quieter(self, before: Option<Self>, policy: &Policy, pcrs: &PcrValues) -> Self {
        let Some(before) = before else { return self };
        let of = |one: &Self| (one.manifest.name().clone(), one.image.label());
        let is_quieter = || self.warnings(policy, pcrs).len() < before.warnings(policy, pcrs).len();
        if of(&before) == of(&self) && is_quieter() { self } else { before }
    }

    fn warnings(&self, policy: &Policy, pcrs: &PcrValues) -> Vec<Warning> {
        let quoted = policy.selection().without(enforced(policy, self.machine));
        let warning = |(&pcr, reference): (&u8, &Reference)| {
            let got = pcrs.value(pcr).filter(|&got| quoted.contains(pcr) && got != reference.value)?;
            Some(Warning { pcr, component: Component::of(pcr), expected: reference.value, got })
        };
        self.machine.pcrs().iter().filter_map(warning).collect()
    }
}

impl ReferenceRule {
    /// Whether an image of a manifest under this rule may run `now` (seconds since the Unix epoch), as far as its name and
    /// version tell: an image with the same measurements as a revoked one is refused when it is met.
    ///
    /// # Errors
    /// `image-revoked`, `image-version-too-old`, `image-not-yet-valid`, `image-expired`.
    pub fn admits(&self, manifest: &ReferenceValues, image: &Image, now: u64) -> Result<(), Refusal> {
        let refuse = |code, detail: String| Err(Refusal::new(code, format!("image {}: {detail}", image.label())));
        if let Some(revoked) = manifest.revocation(image.name(), image.version()) {
            let (name, serial) = (manifest.name(), manifest.serial());
            let detail = format!("revoked by manifest {name}, serial {serial}: {}", revoked.why);
            return refuse(ReasonCode::ImageRevoked, detail);
        }
        if image.version() < self.minimum_version {
            return refuse(ReasonCode::ImageVersionTooOld, format!("the policy's minimum is {}", self.minimum_version));
        }
        if let Some(from) = image.not_before().filter(|&from| now < from) {
            return refuse(ReasonCode::ImageNotYetValid, format!("valid from {from}, now is {now}"));
        }
        if let Some(until) = image.not_after().filter(|&until| now > until) {
            return refuse(ReasonCode::ImageExpired, format!("valid until {until}, now is {now}"));
        }
        Ok(())
    }
}

/// Names the component of the closest image that tells what is wrong.
fn explain(policy: &Policy, closest: Option<&Candidate<'_>>, pcrs: &PcrValues) -> Refusal {
    let told = closest.and_then(|candidate| Some((candidate, candidate.most_specific(policy)?)));
    let Some((candidate, MostSpecific { pcr, means })) = told else {
        return Refusal::new(ReasonCode::ReferenceEmpty, "there is no image to compare with");
    };
    let component = Component::of(pcr);
    let what = means.map_or_else(|| component.describe().to_owned(), |of| format!("{}: {of}", component.describe()));
    let none = || "no value".to_owned();
    let expected = candidate.machine.pcrs().get(&pcr).map_or_else(none, |reference| reference.value.to_string());
    let got = pcrs.value(pcr).map_or_else(none, |value| value.to_string());
    let differing: Vec<u8> = candidate.differing.iter().collect();
    let label = candidate.label();
    let detail = format!(
        "PCR {pcr} ({what}): expected {expected}, got {got}; compared with {label}, PCRs that differ: {differing:?}"
    );
    let difference = Difference { pcr, component, means, expected, got, image: Some(label), differing };
    Refusal::differing(component.reason(), detail, difference)
}
