//! Whether a machine's firmware is known.
//!
//! The list of known firmware is the manifests' own types of machines: one that has values of PCR 0 and 2 lists the firmware that
//! they are of, whichever image it is for. `latchkey record` writes such values, and `latchkey reference add-firmware` puts them into a
//! manifest that was predicted. Both values must be those of one type: those of two never combine.
//!
//! It is told of every machine, and a policy that says `"firmware": "known"` refuses all others. It says no more than a quote does:
//! firmware that its owner wrote extends what he likes, the public values of known firmware included, where nothing below it measures
//! it first.

use serde::{Deserialize, Serialize};

use crate::parse::PcrValues;
use crate::policy::{KNOWN_BY, Policy};
use crate::reference::{ManifestName, References};
use crate::refusal::{ReasonCode, Refusal};

/// How a machine's firmware stands beside the firmware that manifests list.
///
/// JSON: `{"standing": "known", "manifest": NAME, "machine": NAME}`, `{"standing": "unknown"}` or `{"standing": "not-judged"}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "standing", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FirmwareStanding {
    /// A type of machine has its values of PCR 0 and 2.
    Known {
        /// The manifest that lists it.
        manifest: ManifestName,
        /// The type of machine there.
        machine: String,
    },
    /// Firmware is listed, and this is none of it.
    Unknown,
    /// Nobody can say: no manifest lists any firmware, or the machine did not quote both registers.
    #[default]
    NotJudged,
}

impl FirmwareStanding {
    /// `known`, `unknown` or `not judged`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Known { .. } => "known",
            Self::Unknown => "unknown",
            Self::NotJudged => "not judged",
        }
    }

    /// The word, with what it rests on.
    pub fn describe(&self) -> String {
        let word = self.word();
        match self {
            Self::Known { manifest, machine } => format!("{word}: that of {machine} in manifest {manifest}"),
            Self::Unknown => format!("{word}: no manifest lists it"),
            Self::NotJudged => format!("{word}: no manifest lists firmware, or PCR 0 and 2 were not asked for"),
        }
    }
}

impl Policy {
    /// How the firmware that these values are of stands beside that of the manifests.
    pub fn firmware_standing(&self, pcrs: &PcrValues, references: &References) -> FirmwareStanding {
        let [Some(code), Some(option_roms)] = KNOWN_BY.map(|pcr| pcrs.value(pcr)) else {
            return FirmwareStanding::NotJudged;
        };
        let mut standing = FirmwareStanding::NotJudged;
        for (manifest, machine, listed) in references.firmware() {
            if listed == [code, option_roms] {
                return FirmwareStanding::Known { manifest: manifest.clone(), machine: machine.name().to_owned() };
            }
            standing = FirmwareStanding::Unknown;
        }
        standing
    }

    /// The same, where the policy takes it.
    ///
    /// # Errors
    /// `firmware-unknown` under `"firmware": "known"` for all that is not.
    pub(super) fn check_firmware(
        &self,
        pcrs: &PcrValues,
        references: &References,
    ) -> Result<FirmwareStanding, Refusal> {
        let standing = self.firmware_standing(pcrs, references);
        if matches!(standing, FirmwareStanding::Known { .. }) || !self.demands_known_firmware() {
            return Ok(standing);
        }
        let quoted = KNOWN_BY.map(|pcr| match pcrs.value(pcr) {
            Some(value) => format!("PCR {pcr} is {value}"),
            None => format!("PCR {pcr} was not quoted"),
        });
        let detail = format!("{}: no type of machine of a manifest has both values", quoted.join(", "));
        Err(Refusal::new(ReasonCode::FirmwareUnknown, detail))
    }
}
