//! What a verified SEV-SNP report says, against what a policy demands: from the processor upwards, the first difference decides.

use std::fmt;

use serde::Serialize;

use super::AdmittedImage;
use crate::ends::End;
use crate::parse::{GuestPolicy, LaunchDigest, SigningKey, SnpProduct, SnpReport, Tcb};
use crate::policy::{Allowed, Demanded, Policy, SnpKey, SnpPolicy};
use crate::reference::References;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::snp::{Signer, VerifiedSnpReport};

/// A detail has room for this many images.
const SHOWN: usize = 3;

/// The witness that a secure processor vouched for a guest that the policy takes, whatever the guest's launch digest is: that is
/// for [`Policy::recognise_launch`](crate::Policy::recognise_launch) to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdmittedSnp {
    product: SnpProduct,
    tcb: Tcb,
    signed_by: &'static str,
    #[serde(skip)]
    key: SigningKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    certificate_ends: u64,
}

impl fmt::Display for AdmittedSnp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.product, self.tcb)
    }
}

impl AdmittedSnp {
    /// The processor's generation.
    pub fn product(&self) -> SnpProduct {
        self.product
    }

    /// Its firmware.
    pub fn tcb(&self) -> Tcb {
        self.tcb
    }

    /// Which kind of key signed: `VCEK`, a chip's, or `VLEK`, a provider's.
    pub fn signed_by(&self) -> &'static str {
        self.signed_by
    }

    /// When that key's certificate ends, in seconds since the Unix epoch.
    pub fn certificate_ends(&self) -> u64 {
        self.certificate_ends
    }

    pub(super) fn key(&self) -> SigningKey {
        self.key
    }

    pub(super) fn certificate_end(&self) -> End {
        End::new(format!("the certificate of the {}", self.signed_by), self.certificate_ends)
    }

    /// The cloud provider whose key signed, where a provider's did.
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }
}

/// Checks that the processor launched the very image that the TPM's measurements are those of.
pub(super) fn check_image(
    policy: &Policy,
    verified: &VerifiedSnpReport,
    image: &AdmittedImage,
    references: &References,
    now: u64,
) -> Result<(), Refusal> {
    let launch = policy.recognise_launch(verified.report().measurement(), references, now)?;
    if launch.launches.iter().any(|known| known.image.is_the_image_of(image)) {
        return Ok(());
    }
    let known = launch.launches.iter().map(|known| format!("{} {}", known.image.name, known.image.version));
    let known = known.take(SHOWN).collect::<Vec<_>>().join(", ");
    let detail = format!("the processor launched {known}, the TPM quotes {} {}", image.name, image.version);
    refuse(ReasonCode::LaunchOfAnotherImage, detail)
}

/// Checks that what the guest was launched with is trusted to speak for its TPM.
pub(super) fn check_trusted_with_tpm(policy: &Policy, verified: &VerifiedSnpReport) -> Result<(), Refusal> {
    let measurement = verified.report().measurement();
    policy.trusts_with_tpm(measurement).unwrap_or_else(|| Err(not_trusted_with_tpm(measurement)))
}

fn not_trusted_with_tpm(measurement: LaunchDigest) -> Refusal {
    Refusal::new(ReasonCode::SnpLaunchNotTrustedWithTpm, format!("got {measurement}"))
}

impl Policy {
    /// Whether what has this launch digest may speak for its guest's TPM; `None` where no rule of trust takes a processor's word for a TPM,
    /// and manifests say which launches are good ([`Self::recognise_launch`]).
    ///
    /// # Errors
    /// `snp-launch-not-trusted-with-tpm`.
    pub fn trusts_with_tpm(&self, measurement: LaunchDigest) -> Option<Result<(), Refusal>> {
        let mut vouching = self.trust.iter().filter(|rule| rule.is_vouching()).peekable();
        vouching.peek()?;
        let trusted = vouching.any(|rule| rule.trusts_launch(&measurement.0));
        Some(if trusted { Ok(()) } else { Err(not_trusted_with_tpm(measurement)) })
    }
}

impl SnpPolicy {
    /// Decides on everything in a report but its launch digest.
    ///
    /// # Errors
    /// `snp-…-refused`, `snp-…-too-old` and their like: one for each demand, with what was expected and what came.
    pub fn validate(&self, verified: &VerifiedSnpReport) -> Result<AdmittedSnp, Refusal> {
        let report = verified.report();
        let provider = self.check_signer(verified)?;
        self.check_firmware(verified)?;
        self.check_guest(report.policy())?;
        self.check_platform(report)?;
        self.check_launch(report)?;
        Ok(AdmittedSnp {
            product: verified.product(),
            tcb: verified.reported_tcb(),
            signed_by: verified.certificate().kind().name(),
            key: verified.certificate().kind(),
            provider,
            certificate_ends: verified.certificate().validity().to,
        })
    }

    fn check_signer(&self, verified: &VerifiedSnpReport) -> Result<Option<String>, Refusal> {
        if verified.report().chip_masked() && (self.chips.is_some() || !self.denied_chips.is_empty()) {
            let detail = "the host hides which chip it is, and the policy takes not every one";
            return refuse(ReasonCode::SnpChipDenied, detail);
        }
        let chip = &verified.report().chip_id()[..verified.product().chip_id_len()];
        if self.denied_chips.contains(chip) {
            return refuse(ReasonCode::SnpChipDenied, format!("chip {}", hex::encode(chip)));
        }
        if self.chips.as_ref().is_some_and(|chips| !chips.contains(chip)) {
            return refuse(ReasonCode::SnpChipUnknown, format!("chip {}", hex::encode(chip)));
        }
        let kind = match verified.certificate().signer() {
            Signer::Chip(_) => SnpKey::Vcek,
            Signer::Provider(_) => SnpKey::Vlek,
        };
        if !self.keys.contains(&kind) {
            let name = verified.certificate().kind().name();
            return refuse(ReasonCode::SnpKeyRefused, format!("a {name} signed, and `snp.keys` does not name it"));
        }
        match verified.certificate().signer() {
            Signer::Chip(_) => Ok(None),
            Signer::Provider(name) if self.providers.contains(name) => Ok(Some(name.clone())),
            Signer::Provider(name) => refuse(ReasonCode::SnpProviderRefused, format!("the key of {name:?} signed")),
        }
    }

    /// The oldest of all versions that the report names must reach the floor: what runs, what runs after the host undid an
    /// update, and what ran when the guest was launched.
    fn check_firmware(&self, verified: &VerifiedSnpReport) -> Result<(), Refusal> {
        let (report, product) = (verified.report(), verified.product());
        let Some(floor) = self.floors.get(&product) else {
            let named: Vec<_> = self.floors.keys().map(|product| product.name()).collect();
            let detail = format!("{product}; the policy has a floor for {}", named.join(", "));
            return refuse(ReasonCode::SnpProductRefused, detail);
        };
        let layout = product.tcb_layout();
        let versions = [
            ("reported", report.reported_tcb(layout)),
            ("current", report.current_tcb(layout)),
            ("launch", report.launch_tcb(layout)),
            ("committed", report.committed_tcb(layout)),
        ];
        let provisional = self.allow.contains(&Allowed::ProvisionalFirmware);
        for (which, tcb) in versions {
            if which == "committed" && provisional {
                continue;
            }
            if let Some((part, is, least)) = tcb.below(floor) {
                let detail = format!("{which} {part} {is} on {product}, at least {least} expected");
                return refuse(ReasonCode::SnpTcbTooOld, detail);
            }
        }
        if !provisional && report.committed_firmware() != report.current_firmware() {
            let [shown, committed] = [report.current_firmware(), report.committed_firmware()]
                .map(|[major, minor, build]| format!("{major}.{minor} build {build}"));
            let detail = format!("firmware {shown} runs, and its host may go back to {committed}");
            return refuse(ReasonCode::SnpFirmwareProvisional, detail);
        }
        Ok(())
    }

    fn check_guest(&self, policy: GuestPolicy) -> Result<(), Refusal> {
        let allows = |allowed| self.allow.contains(&allowed);
        if policy.allows_debug() {
            return refuse(ReasonCode::SnpDebugAllowed, "bit 19 of the guest's policy is set");
        }
        if policy.allows_migration() && !allows(Allowed::Migration) {
            return refuse(ReasonCode::SnpMigrationAllowed, "bit 18 of the guest's policy is set");
        }
        if policy.allows_smt() && !allows(Allowed::Smt) {
            return refuse(ReasonCode::SnpSmtAllowed, "bit 16 of the guest's policy is set");
        }
        if policy.allows_cxl() && !allows(Allowed::Cxl) {
            return refuse(ReasonCode::SnpCxlAllowed, "bit 21 of the guest's policy is set");
        }
        if self.demand.contains(&Demanded::SingleSocket) && !policy.demands_single_socket() {
            return refuse(ReasonCode::SnpNotSingleSocket, "bit 20 of the guest's policy is not set");
        }
        if policy.abi() < self.minimum_abi {
            let ((is_major, is_minor), (major, minor)) = (policy.abi(), self.minimum_abi);
            let detail = format!("the guest takes ABI {is_major}.{is_minor} on, the policy {major}.{minor}");
            return refuse(ReasonCode::SnpAbiTooOld, detail);
        }
        Ok(())
    }

    fn check_platform(&self, report: &SnpReport) -> Result<(), Refusal> {
        let demands = |demanded| self.demand.contains(&demanded);
        let hides = report.platform().hides_ciphertext() && report.policy().demands_ciphertext_hiding();
        if demands(Demanded::CiphertextHiding) && !hides {
            let detail =
                "ciphertext hiding is off on the machine, or the guest's policy (bit 24) does not insist on it";
            return refuse(ReasonCode::SnpCiphertextVisible, detail);
        }
        if demands(Demanded::AliasCheck) && !report.platform().aliases_checked() {
            return refuse(ReasonCode::SnpAliasesUnchecked, "bit 5 of PLATFORM_INFO is not set");
        }
        if demands(Demanded::IommuWriteSafe) && !report.platform().iommu_writes_safe() {
            return refuse(ReasonCode::SnpIommuWritesUnsafe, "bit 6 of PLATFORM_INFO is not set");
        }
        let unknown = report.platform().unknown();
        if unknown != 0 && !self.allow.contains(&Allowed::UnknownPlatformInfo) {
            let detail = format!("{unknown:#x} of PLATFORM_INFO have no name here");
            return refuse(ReasonCode::SnpPlatformInfoUnknown, detail);
        }
        if report.vmpl() != self.vmpl {
            let detail = format!("the report was asked for at VMPL {}, expected {}", report.vmpl(), self.vmpl);
            return refuse(ReasonCode::SnpVmplRefused, detail);
        }
        Ok(())
    }

    /// What the launcher said of the guest.
    fn check_launch(&self, report: &SnpReport) -> Result<(), Refusal> {
        if !self.id_keys.is_empty() && !self.id_keys.contains(&report.id_key_digest()) {
            return refuse(ReasonCode::SnpIdKeyRefused, format!("got {}", hex::encode(report.id_key_digest())));
        }
        let author = report.author_key_digest();
        let by_an_author = report.has_author_key() && self.author_keys.contains(&author);
        if !self.author_keys.is_empty() && !by_an_author {
            return refuse(ReasonCode::SnpAuthorKeyRefused, format!("got {}", hex::encode(author)));
        }
        if report.guest_svn() < self.minimum_guest_svn {
            let detail = format!("{}, at least {} expected", report.guest_svn(), self.minimum_guest_svn);
            return refuse(ReasonCode::SnpGuestSvnTooOld, detail);
        }
        differs(ReasonCode::SnpFamilyIdDiffers, self.family_id.as_ref(), &report.family_id())?;
        differs(ReasonCode::SnpImageIdDiffers, self.image_id.as_ref(), &report.image_id())?;
        differs(ReasonCode::SnpHostDataDiffers, self.host_data.as_ref(), &report.host_data())
    }
}

fn differs<const N: usize>(code: ReasonCode, expected: Option<&[u8; N]>, got: &[u8; N]) -> Result<(), Refusal> {
    match expected {
        Some(expected) if expected != got => {
            refuse(code, format!("expected {}, got {}", hex::encode(expected), hex::encode(got)))
        }
        _ => Ok(()),
    }
}

fn refuse<T>(code: ReasonCode, detail: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, detail))
}
