//! `latchkey policy check --snp-report`: which launch a report claims; with the collateral, whether it is true.

use std::path::Path;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{LaunchDigest, Tcb};
use latchkey_attestation::policy::{RevocationList, SnpPolicy};
use latchkey_attestation::validate::{AdmittedSnp, Covered, RecognisedLaunch};
use latchkey_attestation::verify::snp::SnpCollateral;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::clock::now;
use crate::collateral::KeptReport;
use crate::error::CommandError;
use crate::output::{Style, Table, Tone, pairs, printable};
use crate::trust::Trust;

/// A report that is held against a policy.
pub(super) struct Claimed {
    file: String,
    kept: KeptReport,
}

impl Claimed {
    pub(super) fn read(path: &Path, arguments: &Arguments) -> Result<Self, CommandError> {
        let certificates = arguments.path("snp-certificates");
        if certificates.is_some() && !arguments.has("collateral") {
            return Err(CommandError::usage("--snp-certificates goes with --collateral DIR: AMD's roots are there"));
        }
        Ok(Self { file: path.display().to_string(), kept: KeptReport::read(path, certificates)? })
    }

    /// Which launch of the manifests it claims, and whether the claim is true.
    pub(super) fn report(&self, trust: &Trust) -> SnpVerdict {
        let report = &self.kept.report;
        let with_tpm = trust.policy.trusts_with_tpm(report.measurement());
        let vouching = with_tpm.is_some();
        let (recognised, refusal) = match with_tpm {
            Some(trusted) => (None, trusted.err()),
            None => match trust.policy.recognise_launch(report.measurement(), &trust.references, now()) {
                Ok(found) => (Some(found), None),
                Err(refusal) => (None, Some(refusal)),
            },
        };
        let processor = trust.processors.snp.as_ref().map(|collateral| match self.processor(collateral, trust) {
            Ok(processor) => Judged::Is(processor),
            Err(refusal) => Judged::Refused { refusal },
        });
        SnpVerdict {
            file: self.file.clone(),
            verified: matches!(processor, Some(Judged::Is(_))),
            verdict: match &processor {
                None => NOT_VERIFIED,
                Some(Judged::Is(_)) if vouching && refusal.is_some() => NOT_TRUSTED,
                Some(Judged::Is(Processor { admitted: Some(_), .. })) => ADMITTED,
                Some(Judged::Is(_)) => NOT_JUDGED,
                Some(Judged::Refused { .. }) => REFUSED,
            },
            version: report.version(),
            claimed_measurement: report.measurement(),
            claimed_vmpl: report.vmpl(),
            claims_debug: report.policy().allows_debug(),
            processor,
            recognised,
            refusal,
        }
    }

    /// Whose signature it is, and whether the policy takes it.
    fn processor(&self, collateral: &SnpCollateral, trust: &Trust) -> Result<Processor, Refusal> {
        let policy = trust.policy.snp();
        let rule = policy.map_or(RevocationList::Demanded, SnpPolicy::revocation_list);
        let verified = self.kept.verify(collateral, rule)?;
        Ok(Processor {
            product: verified.product().name(),
            signed_by: verified.certificate().kind().name(),
            tcb: verified.reported_tcb(),
            certificate_ends: verified.certificate().validity().to,
            admitted: policy.map(|policy| policy.validate(&verified)).transpose()?,
        })
    }
}

/// What a report says of itself, beside the manifests, and what is true of it.
#[derive(Serialize)]
pub(super) struct SnpVerdict {
    file: String,
    verified: bool,
    verdict: &'static str,
    version: u32,
    claimed_measurement: LaunchDigest,
    claimed_vmpl: u32,
    claims_debug: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<Judged>,
    recognised: Option<RecognisedLaunch>,
    refusal: Option<Refusal>,
}

/// Whether hardware of AMD's signed it, and the policy takes that.
#[derive(Serialize)]
#[serde(untagged)]
enum Judged {
    Is(Processor),
    Refused { refusal: Refusal },
}

/// The secure processor that signed.
#[derive(Serialize)]
struct Processor {
    product: &'static str,
    signed_by: &'static str,
    tcb: Tcb,
    /// Seconds since the Unix epoch.
    certificate_ends: u64,
    /// Absent where the policy has no section `snp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted: Option<AdmittedSnp>,
}

impl SnpVerdict {
    pub(super) fn text(&self, style: Style) -> String {
        let mut claims = format!("launch digest {}\nasked for at VMPL {}", self.claimed_measurement, self.claimed_vmpl);
        if self.claims_debug {
            claims.push_str("\nits host may debug it: read and write its memory");
        }
        let beside = match (&self.recognised, &self.refusal) {
            (Some(RecognisedLaunch { covers: Covered::Image, .. }), _) => {
                "the launch digest of an image that may run".to_owned()
            }
            (Some(RecognisedLaunch { covers: Covered::Firmware, .. }), _) => {
                "the launch digest of a firmware alone: it says nothing about the image".to_owned()
            }
            (None, Some(refusal)) => style.paint(Tone::Bad, &printable(&refusal.to_string())),
            (None, None) => "a launch that the policy's rule of trust takes: it may vouch for its TPM".to_owned(),
        };
        let tone = if self.verdict == ADMITTED { Tone::Good } else { Tone::Warning };
        let mut rows = vec![
            ("snp report", printable(&self.file)),
            ("verdict", style.paint(tone, self.verdict)),
            ("claims", claims),
        ];
        match &self.processor {
            None => {}
            Some(Judged::Refused { refusal }) => {
                rows.push(("processor", style.paint(Tone::Bad, &printable(&refusal.to_string()))));
            }
            Some(Judged::Is(Processor { product, signed_by, tcb, .. })) => {
                rows.push(("processor", format!("{product}, its {signed_by} signed\nfirmware: {tcb}")));
            }
        }
        rows.push(("which is", beside));
        let head = pairs(&rows);
        let Some(recognised) = &self.recognised else { return format!("\n{head}") };
        let mut table = Table::new(&["MANIFEST", "IMAGE", "MACHINE", "SEV-SNP GUEST"]);
        for known in &recognised.launches {
            let image = &known.image;
            table.row([
                image.manifest.to_string(),
                format!("{} {}", image.name, image.version),
                image.machine.clone(),
                known.launch.to_string(),
            ]);
        }
        format!("\n{head}\n{table}")
    }
}

const NOT_VERIFIED: &str = "NOT VERIFIED: no signature and no certificate was checked; anybody can write such a file";
const ADMITTED: &str = "hardware of AMD signed it, and the policy takes what it says of processor and guest";
const NOT_TRUSTED: &str = "REFUSED: the policy's rule of trust does not take this launch";
const NOT_JUDGED: &str = "hardware of AMD signed it; the policy has no section `snp`, so nobody judged what it says";
const REFUSED: &str = "REFUSED: the processor line says why";
