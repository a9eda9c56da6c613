//! Why a machine is not admitted, in words: the event of its own log that is not as the manifest tells.

use std::fmt;

use latchkey_attestation::reference::Machine;
use latchkey_attestation::{PcrValues, Policy, References, Refusal};

use crate::difference::{EventDifference, telling, unexpected};
use crate::error::LogError;
use crate::log::EventLog;
use crate::replay::{self, NotReplayed};

/// What a refused machine's own log tells, in one sentence; `None` unless `refusal` is about measurements that no image has.
/// `quoted` are PCR values that its TPM signed, `log` what it sent along.
pub fn what_differs(
    refusal: &Refusal,
    (policy, references): (&Policy, &References),
    quoted: &PcrValues,
    log: Option<&[u8]>,
) -> Option<String> {
    refusal.difference()?.image.as_ref()?;
    let Some(log) = log else { return Some("no event tells: the machine sent no event log".to_owned()) };
    Some(match telling_event(policy.closest(quoted, references)?, log, quoted) {
        Ok(Some(event)) => event.to_string(),
        Ok(None) => "no event tells: the log has every one that the manifest has".to_owned(),
        Err(untold) => format!("no event tells: {untold}"),
    })
}

/// The most telling event that a machine of this type should have measured and this one did not, or the other way round.
/// `None` where the log is as expected: what differs is not told of by events.
///
/// `quoted` are PCR values that a TPM signed. The log is believed only as far as it replays to them: of a log that does
/// not, nothing is said but that.
///
/// # Errors
/// [`Untold`].
pub fn telling_event(expected: &Machine, log: &[u8], quoted: &PcrValues) -> Result<Option<EventDifference>, Untold> {
    if expected.events().is_empty() {
        return Err(Untold::NoEvents);
    }
    let log = EventLog::parse(log).map_err(Untold::Log)?;
    replay::check(&log, quoted, replay::firmware_pcrs()).map_err(Untold::NotReplayed)?;
    let which = expected.explained().intersection(quoted.set());
    Ok(telling(unexpected(expected.events(), &log, which)))
}

/// Why no event can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untold {
    /// The manifest has values only.
    NoEvents,
    /// The log cannot be read.
    Log(LogError),
    /// The log is not that of the quoted boot.
    NotReplayed(NotReplayed),
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvents => f.write_str("the manifest does not tell the events behind its values"),
            Self::Log(error) => error.fmt(f),
            Self::NotReplayed(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Untold {}
