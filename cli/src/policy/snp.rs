//! `latchkey policy check --snp-report`: which launch a report claims. Nothing of it is verified, and that is said.

use std::path::Path;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{LaunchDigest, UnverifiedSnpReport};
use latchkey_attestation::validate::{Covered, RecognisedLaunch};
use serde::Serialize;

use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Style, Table, Tone, pairs, printable};
use crate::trust::{Trust, now};

/// A report that nobody verified.
pub(super) struct Claimed {
    file: String,
    report: UnverifiedSnpReport,
}

impl Claimed {
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let file = path.display().to_string();
        let report = UnverifiedSnpReport::parse(&files::read(path, UnverifiedSnpReport::SIZE)?)
            .map_err(|refusal| CommandError::refused(Exit::Usage, format!("{file} cannot be used"), &refusal))?;
        Ok(Self { file, report })
    }

    /// Which launch of the manifests it claims.
    pub(super) fn report(&self, trust: &Trust) -> ClaimedReport {
        let report = &self.report;
        let found = trust.policy.recognise_launch(report.claimed_measurement(), &trust.references, now());
        let (recognised, refusal) = match found {
            Ok(found) => (Some(found), None),
            Err(refusal) => (None, Some(refusal)),
        };
        ClaimedReport {
            file: self.file.clone(),
            verified: false,
            verdict: NOT_VERIFIED,
            version: report.version(),
            claimed_measurement: report.claimed_measurement(),
            claimed_vmpl: report.claimed_vmpl(),
            claims_debug: report.claims_debug(),
            recognised,
            refusal,
        }
    }
}

/// What a report says of itself, beside the manifests.
#[derive(Serialize)]
pub(super) struct ClaimedReport {
    file: String,
    verified: bool,
    verdict: &'static str,
    version: u32,
    claimed_measurement: LaunchDigest,
    claimed_vmpl: u32,
    claims_debug: bool,
    recognised: Option<RecognisedLaunch>,
    refusal: Option<Refusal>,
}

impl ClaimedReport {
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
            (None, refusal) => {
                let refusal = refusal.as_ref().map(ToString::to_string).unwrap_or_default();
                style.paint(Tone::Bad, &printable(&refusal))
            }
        };
        let head = pairs(&[
            ("snp report", printable(&self.file)),
            ("verdict", style.paint(Tone::Warning, self.verdict)),
            ("claims", claims),
            ("which is", beside),
        ]);
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
