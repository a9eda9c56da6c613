//! `latchkey policy check --snp-report`: which launch a report claims. Nothing of it is verified, and that is said.

use std::path::Path;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::UnverifiedSnpReport;
use latchkey_attestation::validate::{Covered, RecognisedLaunch};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Table, Tone, pairs, printable};
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

    /// Text, and its part of the JSON.
    pub(super) fn told(&self, trust: &Trust, output: &Output) -> (String, Value) {
        let found = trust.policy.recognise_launch(self.report.claimed_measurement(), &trust.references, now());
        (self.text(&found, output), self.json(&found))
    }

    fn text(&self, found: &Result<RecognisedLaunch, Refusal>, output: &Output) -> String {
        let Self { file, report } = self;
        let mut claims =
            format!("launch digest {}\nasked for at VMPL {}", report.claimed_measurement(), report.claimed_vmpl());
        if report.claims_debug() {
            claims.push_str("\nits host may debug it: read and write its memory");
        }
        let beside = match found {
            Ok(RecognisedLaunch { covers: Covered::Image, .. }) => {
                "the launch digest of an image that may run".to_owned()
            }
            Ok(RecognisedLaunch { covers: Covered::Firmware, .. }) => {
                "the launch digest of a firmware alone: it says nothing about the image".to_owned()
            }
            Err(refusal) => output.paint(Tone::Bad, &printable(&refusal.to_string())),
        };
        let head = pairs(&[
            ("snp report", printable(file)),
            ("verdict", output.paint(Tone::Warning, NOT_VERIFIED)),
            ("claims", claims),
            ("which is", beside),
        ]);
        let mut table = Table::new(&["MANIFEST", "IMAGE", "MACHINE", "SEV-SNP GUEST"]);
        for known in found.iter().flat_map(|found| &found.launches) {
            let image = &known.image;
            table.row([
                image.manifest.to_string(),
                format!("{} {}", image.name, image.version),
                image.machine.clone(),
                known.launch.to_string(),
            ]);
        }
        if found.is_ok() { format!("\n{head}\n{table}") } else { format!("\n{head}") }
    }

    fn json(&self, found: &Result<RecognisedLaunch, Refusal>) -> Value {
        let report = &self.report;
        json!({
            "file": self.file, "verified": false, "verdict": NOT_VERIFIED, "version": report.version(),
            "claimed_measurement": report.claimed_measurement(), "claimed_vmpl": report.claimed_vmpl(),
            "claims_debug": report.claims_debug(), "recognised": found.as_ref().ok(), "refusal": found.as_ref().err(),
        })
    }
}

const NOT_VERIFIED: &str = "NOT VERIFIED: no signature and no certificate was checked; anybody can write such a file";
