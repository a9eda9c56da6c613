//! Which launch is this? The launch digest of an SEV-SNP guest, beside those of the manifests. **Nobody is
//! admitted by it alone**: the caller answers for where the digest comes from.

use std::fmt::Write as _;

use serde::Serialize;

use super::AdmittedImage;
use crate::parse::LaunchDigest;
use crate::policy::{Policy, ReferenceRule};
use crate::reference::{AuthenticManifest, Image, PlatformProfile, References, SnpLaunch};
use crate::refusal::{ReasonCode, Refusal};

/// A launch digest that a manifest lists, for images that may run. Whose digest it is, somebody else has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecognisedLaunch {
    /// What the digest covers.
    pub covers: Covered,
    /// Where it is listed, for an image that may run; at least one.
    pub launches: Vec<KnownLaunch>,
}

/// What a launch digest covers beside the processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covered {
    /// Firmware and image: a direct boot with kernel hashes.
    Image,
    /// The firmware alone, which then boots any image. What runs, only something else can tell.
    Firmware,
}

/// One launch of one type of machine of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownLaunch {
    /// The image and the type of machine.
    pub image: AdmittedImage,
    /// The guest.
    pub launch: SnpLaunch,
}

impl Policy {
    /// Looks for a launch digest (`MEASUREMENT` of an SNP report) among those that the manifests list, at `now` (seconds since
    /// the Unix epoch).
    ///
    /// The rules are those of PCRs, with one more for what a digest covers. One that covers its image is that image's: if a
    /// manifest revokes the image, the digest is refused, whatever else lists it. One that covers the firmware alone is
    /// shared by all images on it, and is known as long as one of them may run.
    ///
    /// # Errors
    /// * `launch-unknown`: no manifest lists it; the detail says what would have been expected.
    /// * `image-revoked`, `image-version-too-old`, `image-not-yet-valid`, `image-expired`: it is known, and may not run.
    pub fn recognise_launch(
        &self,
        measurement: LaunchDigest,
        references: &References,
        now: u64,
    ) -> Result<RecognisedLaunch, Refusal> {
        let mut launches = Vec::new();
        let mut forbidden = None;
        let mut covers = Covered::Image;
        for found in listed(self, references).filter(|found| found.launch.digest == measurement) {
            if !found.launch.kernel_hashes {
                covers = Covered::Firmware;
            }
            match found.rule.admits(found.manifest.values(), found.image, now) {
                Ok(()) => launches.push(found.known()),
                Err(refusal) if found.launch.kernel_hashes && refusal.code() == ReasonCode::ImageRevoked => {
                    return Err(refusal);
                }
                Err(refusal) => forbidden = forbidden.or(Some(refusal)),
            }
        }
        match (launches.is_empty(), forbidden) {
            (false, _) => Ok(RecognisedLaunch { covers, launches }),
            (true, Some(refusal)) => Err(refusal),
            (true, None) => Err(unknown(self, measurement, references)),
        }
    }
}

/// A launch digest with what it stands in.
struct Listed<'a> {
    rule: &'a ReferenceRule,
    manifest: &'a AuthenticManifest,
    image: &'a Image,
    machine: &'a PlatformProfile,
    launch: &'a SnpLaunch,
}

impl Listed<'_> {
    fn known(&self) -> KnownLaunch {
        let image = AdmittedImage {
            manifest: self.manifest.values().name().clone(),
            serial: self.manifest.values().serial(),
            source: self.image.source(),
            name: self.image.name().to_owned(),
            version: self.image.version(),
            machine: self.machine.name().to_owned(),
        };
        KnownLaunch { image, launch: self.launch.clone() }
    }
}

fn listed<'a>(policy: &'a Policy, references: &'a References) -> impl Iterator<Item = Listed<'a>> {
    policy.references.iter().filter_map(|rule| Some((rule, references.manifest(&rule.manifest)?))).flat_map(
        |(rule, manifest)| {
            let of_machine = move |image: &'a Image, machine: &'a PlatformProfile| {
                machine.snp_launch().iter().map(move |launch| Listed { rule, manifest, image, machine, launch })
            };
            let of_image =
                move |image: &'a Image| image.machines().iter().flat_map(move |machine| of_machine(image, machine));
            manifest.values().images().iter().flat_map(of_image)
        },
    )
}

/// Says what would have been expected, as far as a line has room.
fn unknown(policy: &Policy, measurement: LaunchDigest, references: &References) -> Refusal {
    let mut detail = format!("got {measurement}");
    let count = listed(policy, references).count();
    // Writing to a string cannot fail.
    let _ = match count {
        0 => write!(detail, "; no manifest of the policy lists launch digests"),
        _ => write!(detail, "; expected one of {count}, such as "),
    };
    let mut shown: Vec<_> = Vec::new();
    for found in listed(policy, references).take(SHOWN) {
        let (image, machine, digest) = (found.image.label(), found.machine.name(), found.launch.digest);
        shown.push(format!("{digest} ({image} on {machine}: {})", found.launch));
    }
    detail.push_str(&shown.join(", "));
    Refusal::new(ReasonCode::LaunchUnknown, detail)
}

/// A detail has room for this many.
const SHOWN: usize = 3;
