//! Which image is this? All enforced PCRs must be those of one image: values of two images never combine.

use super::{AdmittedImage, Warning, enforced};
use crate::parse::{Component, PcrSet, PcrValues};
use crate::policy::{Policy, ReferenceRule};
use crate::reference::{Image, ReferenceValues, References};
use crate::refusal::{Difference, ReasonCode, Refusal};

/// The matching image and what is only warned about.
pub(crate) struct Match {
    pub(crate) image: AdmittedImage,
    pub(crate) warnings: Vec<Warning>,
}

/// Finds the image that `pcrs` are the measurements of, and checks that it may run.
pub(crate) fn match_image(
    policy: &Policy,
    pcrs: &PcrValues,
    references: &References,
    now: u64,
) -> Result<Match, Refusal> {
    let mut closest: Option<Candidate<'_>> = None;
    let mut forbidden = None;
    for rule in &policy.references {
        let missing =
            || Refusal::new(ReasonCode::ReferenceMissing, format!("manifest {} is not loaded", rule.manifest));
        let manifest = references.manifest(&rule.manifest).ok_or_else(missing)?;
        for image in manifest.images() {
            let candidate = Candidate::compare(policy, pcrs, manifest, image);
            if !candidate.differing.is_empty() {
                closest = Some(Candidate::closer(closest, candidate));
                continue;
            }
            match check_admissible(rule, image, now) {
                Ok(()) => return Ok(candidate.into_match(policy, pcrs)),
                Err(refusal) => forbidden = forbidden.or(Some(refusal)),
            }
        }
    }
    // An image that is known but may not run explains more than how far another one is.
    Err(forbidden.unwrap_or_else(|| explain(closest.as_ref(), pcrs)))
}

struct Candidate<'a> {
    manifest: &'a ReferenceValues,
    image: &'a Image,
    /// Enforced PCRs that do not have the image's value.
    differing: PcrSet,
}

impl<'a> Candidate<'a> {
    fn compare(policy: &Policy, pcrs: &PcrValues, manifest: &'a ReferenceValues, image: &'a Image) -> Self {
        let same = |index| match (image.pcrs().get(&index), pcrs.value(index)) {
            (Some(reference), Some(got)) => reference.value == got,
            _ => false,
        };
        let differing = enforced(policy, image).iter().filter(|&index| !same(index));
        let differing = differing.fold(PcrSet::EMPTY, |set, index| set.with(index).unwrap_or(set));
        Self { manifest, image, differing }
    }

    /// The one with fewer differences; of equals the newer version.
    fn closer(best: Option<Self>, other: Self) -> Self {
        let key = |candidate: &Self| (candidate.differing.iter().count(), std::cmp::Reverse(candidate.image.version()));
        match best {
            Some(best) if key(&best) <= key(&other) => best,
            _ => other,
        }
    }

    fn label(&self) -> String {
        format!("{}/{}", self.manifest.name(), self.image.label())
    }

    fn into_match(self, policy: &Policy, pcrs: &PcrValues) -> Match {
        let quoted = policy.selection().without(enforced(policy, self.image));
        let warning = |(&pcr, reference): (&u8, &crate::reference::Reference)| {
            let got = pcrs.value(pcr).filter(|&got| quoted.contains(pcr) && got != reference.value)?;
            Some(Warning { pcr, component: Component::of(pcr), expected: reference.value, got })
        };
        Match {
            warnings: self.image.pcrs().iter().filter_map(warning).collect(),
            image: AdmittedImage {
                manifest: self.manifest.name().clone(),
                source: self.manifest.source(),
                name: self.image.name().to_owned(),
                version: self.image.version(),
            },
        }
    }
}

fn check_admissible(rule: &ReferenceRule, image: &Image, now: u64) -> Result<(), Refusal> {
    let refuse = |code, detail: String| Err(Refusal::new(code, format!("image {}: {detail}", image.label())));
    if image.version() < rule.minimum_version {
        return refuse(ReasonCode::ImageVersionTooOld, format!("the policy's minimum is {}", rule.minimum_version));
    }
    if let Some(from) = image.not_before().filter(|&from| now < from) {
        return refuse(ReasonCode::ImageNotYetValid, format!("valid from {from}, now is {now}"));
    }
    if let Some(until) = image.not_after().filter(|&until| now > until) {
        return refuse(ReasonCode::ImageExpired, format!("valid until {until}, now is {now}"));
    }
    Ok(())
}

/// Names the first differing component of the closest image.
fn explain(closest: Option<&Candidate<'_>>, pcrs: &PcrValues) -> Refusal {
    let first = closest.and_then(|candidate| Some((candidate, candidate.differing.iter().next()?)));
    let Some((candidate, pcr)) = first else {
        return Refusal::new(ReasonCode::ReferenceEmpty, "there is no image to compare with");
    };
    let component = Component::of(pcr);
    let expected =
        candidate.image.pcrs().get(&pcr).map_or_else(|| "no value".to_owned(), |reference| reference.value.to_string());
    let got = pcrs.value(pcr).map_or_else(|| "no value".to_owned(), |value| value.to_string());
    let differing: Vec<u8> = candidate.differing.iter().collect();
    let label = candidate.label();
    let detail = format!(
        "PCR {pcr} ({}): expected {expected}, got {got}; compared with {label}, PCRs that differ: {differing:?}",
        component.describe()
    );
    let difference = Difference { pcr, component, expected, got, image: Some(label), differing };
    Refusal::differing(component.reason(), detail, difference)
}
