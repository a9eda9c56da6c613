//! Why a machine is not admitted, in words: the event of its own log that is not as the manifest tells.

use latchkey_attestation::reference::PlatformProfile;
use latchkey_attestation::{Difference, PcrSet, PcrValues, Policy, References, Refusal};

use crate::difference::{EventDifference, most_specific, unexpected};
use crate::error::LogError;
use crate::log::EventLog;
use crate::replay::{self, ReplayError};

/// What a refused machine's own log tells, in one sentence; `None` unless `refusal` is about measurements that no image has.
/// `quoted` are PCR values that its TPM signed, `log` what it sent along.
pub fn what_differs(
    refusal: &Refusal,
    (policy, references): (&Policy, &References),
    quoted: &PcrValues,
    log: Option<&[u8]>,
) -> Option<String> {
    let difference = refusal.difference()?;
    difference.image.as_ref()?;
    let Some(log) = log else { return Some("no event tells: the machine sent no event log".to_owned()) };
    Some(match most_specific_event(policy.closest(quoted, references)?, log, quoted, difference) {
        Ok(event) => event.to_string(),
        Err(untold) => format!("no event tells: {untold}"),
    })
}

/// The most telling event that a machine of this type should have measured and this one did not, or the other way round:
/// of the register that the refusal names, or else of those that differ, too.
///
/// `quoted` are PCR values that a TPM signed. The log is believed only as far as it replays to them: of a log that does
/// not, nothing is said but that.
///
/// # Errors
/// [`DiagnosisError`].
pub fn most_specific_event(
    expected: &PlatformProfile,
    log: &[u8],
    quoted: &PcrValues,
    refused: &Difference,
) -> Result<EventDifference, DiagnosisError> {
    let differing = refused.differing.iter().fold(PcrSet::EMPTY, |set, &pcr| set.with(pcr).unwrap_or(set));
    let which = expected.explained().intersection(differing);
    if which.is_empty() {
        return Err(DiagnosisError::NoEvents(refused.pcr));
    }
    let log = EventLog::parse(log).map_err(DiagnosisError::Log)?;
    replay::check(&log, quoted, replay::firmware_pcrs()).map_err(DiagnosisError::ReplayError)?;
    let differences = unexpected(expected.events(), &log, which);
    let named = differences.iter().find(|difference| difference.pcr == refused.pcr).cloned();
    named.or_else(|| most_specific(differences)).ok_or(DiagnosisError::NoEvents(refused.pcr))
}

/// Why no event can be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiagnosisError {
    /// The manifest does not tell what the value of this register, or of another that differs, is made of.
    #[error("the manifest does not tell the events behind its value of PCR {0}")]
    NoEvents(u8),
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// The log is not that of the quoted boot.
    #[error(transparent)]
    ReplayError(ReplayError),
}
