//! Why evidence was refused: a closed set of stable codes, each with who is at fault and what to do.
//!
//! A [`Refusal`] is for the side that refuses: its log, its decision record, its operator. The peer is told only the
//! [`CoarseReason`] (`Refusal::coarse`), which says what kind of thing failed and nothing about the expected values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::parse::Component;

pub use crate::codes::ReasonCode;

/// A refusal: the stable code, one sentence of detail, and for measurements what differed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    code: ReasonCode,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Box<Difference>>,
}

impl Refusal {
    /// A refusal with its detail (what was expected and what came; never a secret). Overlong details are cut, and
    /// made printable: details quote what peers send, and end on consoles and in logs.
    pub fn new(code: ReasonCode, detail: impl Into<String>) -> Self {
        let detail: String = detail.into();
        let mut room = MAX_DETAIL;
        let fits = |c: &char| room.checked_sub(c.len_utf8()).map(|left| room = left).is_some();
        Self { code, detail: latchkey_reason::printable(&detail).take_while(fits).collect(), difference: None }
    }

    /// A refusal for a PCR that does not have the expected value.
    pub(crate) fn differing(code: ReasonCode, detail: impl Into<String>, difference: Difference) -> Self {
        Self { difference: Some(Box::new(difference)), ..Self::new(code, detail) }
    }

    /// The stable code.
    pub fn code(&self) -> ReasonCode {
        self.code
    }

    /// Expected and got, in one sentence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What differs, where measurements were refused.
    pub fn difference(&self) -> Option<&Difference> {
        self.difference.as_deref()
    }

    /// What the peer may be told.
    pub fn coarse(&self) -> CoarseReason {
        self.code.coarse()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        write!(f, " ({})", self.code.remedy())
    }
}

impl std::error::Error for Refusal {}

/// What differs from the closest image: the PCR that tells what is wrong, and all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// PCR index, 0 to 23.
    pub pcr: u8,
    /// What is measured into that PCR.
    pub component: Component,
    /// What of it, as far as the other PCRs tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<&'static str>,
    /// The value that would have been admitted, lower-case hexadecimal; words where it is any of several.
    pub expected: String,
    /// The quoted value, lower-case hexadecimal.
    pub got: String,
    /// The image of the reference values that came closest, as `manifest/name version on machine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// All enforced PCRs that differ from that image, ascending.
    pub differing: Vec<u8>,
}

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The peer sent bytes that no honest implementation sends: a bug there, or an attack.
    Peer,
    /// The peer's platform: its TPM, certificate, or what it booted.
    Platform,
    /// The operator: policy or reference values need a change.
    Operator,
    /// This machine could not do its part.
    Verifier,
}

/// What the peer is told: the kind of check that failed, without values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoarseReason {
    /// The evidence could not be read.
    EvidenceMalformed,
    /// The TPM, its certificate or its attestation key is not trusted.
    TpmNotTrusted,
    /// The processor, its firmware or its certificate is not trusted.
    TeeNotTrusted,
    /// The quote does not prove this session.
    EvidenceRejected,
    /// The measurements are not those of an admitted image.
    MeasurementsRefused,
    /// The node lock (PCR 15) is not as this purpose demands.
    LockRefused,
    /// The verifier is not able to decide; try again later.
    VerifierUnavailable,
}

impl CoarseReason {
    /// The stable word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EvidenceMalformed => "evidence-malformed",
            Self::TpmNotTrusted => "tpm-not-trusted",
            Self::TeeNotTrusted => "tee-not-trusted",
            Self::EvidenceRejected => "evidence-rejected",
            Self::MeasurementsRefused => "measurements-refused",
            Self::LockRefused => "lock-refused",
            Self::VerifierUnavailable => "verifier-unavailable",
        }
    }

    /// One sentence for the refused side's console, naming the fix.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::EvidenceMalformed => "run the same release on both sides; the verifier's log names the field",
            Self::TpmNotTrusted => {
                "have this machine's TPM admitted: its EK certificate authority or EK digest belongs in the policy"
            }
            Self::TeeNotTrusted => {
                "have this machine's processor admitted: its certificate belongs in the verifier's collateral, its product and \
                 firmware in the policy"
            }
            Self::EvidenceRejected => {
                "reboot and try again; if it stays, something between this node and the verifier alters evidence"
            }
            Self::MeasurementsRefused => {
                "boot an admitted image unchanged, command line included; the verifier's log names the component that differs"
            }
            Self::LockRefused => {
                "reboot this machine: it has already joined during this boot, or locked itself to another cluster"
            }
            Self::VerifierUnavailable => "look at the verifier's log: its policy or reference values need its operator",
        }
    }
}

impl fmt::Display for CoarseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ReasonCode {
    type Err = UnknownReasonError;

    fn from_str(text: &str) -> Result<Self, UnknownReasonError> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(UnknownReasonError)
    }
}

impl Serialize for ReasonCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ReasonCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A word that is no reason code of this release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reason code of this release")]
pub struct UnknownReasonError;

/// Details are for one log line.
const MAX_DETAIL: usize = 1024;
