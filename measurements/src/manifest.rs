//! Reference manifests: which measurements an image has.
//!
//! The schema is [`ReferenceValues`], closed and versioned, and that is its only reader: what a verifier loads is what is
//! published. Signatures are over the file's exact bytes and lie beside it, so the schema has no room for them.
//!
//! Values come from evidence ([`ReferenceValues::record`]), or, where a boot is trusted and its log at hand, from the log.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_attestation::parse::PcrSet;
pub use latchkey_attestation::reference::Description;
use latchkey_attestation::reference::{ExpectedEvent, Origin, PlatformProfile, Reference, Rule};
use latchkey_attestation::{Digest, PcrValues, Policy, ReferenceValues, Refusal};

use crate::bank::Bank;
use crate::event::Event;
use crate::explain::describe;
use crate::log::EventLog;
use crate::replay::Replay;

/// A manifest of one image with what `log` replays to: `enforce` and `warn` as given, zero for PCRs that the log does not
/// extend, all of one machine type. The log's SHA-256 is named in the provenance.
///
/// Nothing proves that a log is what it says. The caller vouches for the boot, as with every recorded manifest.
///
/// # Errors
/// [`ManifestError`]: the log has no SHA-256 digests, or the manifest would not be valid.
pub fn from_log(
    bytes: &[u8],
    log: &EventLog<'_>,
    enforce: PcrSet,
    warn: PcrSet,
    machine: &str,
    about: &Description<'_>,
) -> Result<ReferenceValues, ManifestError> {
    let replay = Replay::of(log, Bank::Sha256).ok_or(ManifestError::NoSha256)?;
    let rules = [(enforce, Rule::Enforce), (warn.without(enforce), Rule::Warn)];
    let pcrs = rules.into_iter().flat_map(|(pcrs, rule)| pcrs.iter().map(move |pcr| (pcr, rule)).collect::<Vec<_>>());
    // The lock's PCR has no reference value.
    let pcrs = pcrs.filter(|(pcr, _)| *pcr != Policy::LOCK_PCR);
    let pcrs: BTreeMap<_, _> = pcrs.map(|(pcr, rule)| (pcr, Reference { value: value(&replay, pcr), rule })).collect();
    let files = [("event log".to_owned(), digest(&Bank::Sha256.digest(&[bytes])))];
    let origin = Origin { products: files.clone().into(), sources: files.into(), ..Origin::default() };
    let made = |pcr| pcrs.get(&pcr).map(|reference: &Reference| reference.value);
    let events = events(log, made);
    ReferenceValues::recorded(about, origin, vec![PlatformProfile::new(machine, pcrs).with_events(events)])
        .map_err(ManifestError::Invalid)
}

/// The events behind these quoted values of a boot that the caller vouches for, as its log tells of them: of the PCRs of
/// `which` that it replays to. None if it cannot be read.
pub fn logged_events(log: &[u8], quoted: &PcrValues, which: PcrSet) -> Vec<ExpectedEvent> {
    let made = |pcr| quoted.value(pcr).filter(|_| which.contains(pcr));
    EventLog::parse(log).map_or_else(|_| Vec::new(), |log| events(&log, made))
}

/// The log's events of those PCRs whose values they make: not of one that begins with the startup locality.
fn events(log: &EventLog<'_>, made: impl Fn(u8) -> Option<Digest>) -> Vec<ExpectedEvent> {
    let expected = |event: &Event<'_>| {
        let digest = digest(event.digest(Bank::Sha256)?);
        Some(ExpectedEvent::new(event.extends()?, &event.kind.to_string(), &describe(event), digest))
    };
    let mut events: Vec<_> = log.events().iter().filter_map(expected).collect();
    let replayed: BTreeSet<u8> = events.iter().map(|event| event.pcr).collect();
    let replayed: BTreeSet<u8> =
        replayed.into_iter().filter(|&pcr| made(pcr) == Some(ExpectedEvent::fold(&events, pcr))).collect();
    events.retain(|event| replayed.contains(&event.pcr));
    // A log may have thousands; a manifest is for those of a boot.
    if events.len() > PlatformProfile::MAX_EVENTS { Vec::new() } else { events }
}

/// The PCRs of `machine` that `log` does not replay to.
///
/// # Errors
/// [`ManifestError::NoSha256`].
pub fn differing(machine: &PlatformProfile, log: &EventLog<'_>) -> Result<PcrSet, ManifestError> {
    let replay = Replay::of(log, Bank::Sha256).ok_or(ManifestError::NoSha256)?;
    let differs = |(&pcr, reference): (&u8, &Reference)| (value(&replay, pcr) != reference.value).then_some(pcr);
    let pcrs = machine.pcrs().iter().filter_map(differs);
    Ok(pcrs.fold(PcrSet::EMPTY, |set, pcr| set.with(pcr).unwrap_or(set)))
}

fn value(replay: &Replay, pcr: u8) -> Digest {
    digest(replay.value(pcr).unwrap_or(&[]))
}

/// Zero for what is no SHA-256 digest: the value of a PCR that nothing extended.
fn digest(bytes: &[u8]) -> Digest {
    Digest(bytes.try_into().unwrap_or([0; 32]))
}

/// Why there is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The log has no SHA-256 digests, which are what verifiers compare.
    #[error("the event log has no SHA-256 digests, or not one for each event")]
    NoSha256,
    /// The values make no valid manifest.
    #[error(transparent)]
    Invalid(Refusal),
}

impl ManifestError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoSha256 => "turn the TPM's SHA-256 bank on, and record again",
            Self::Invalid(_) => return None,
        })
    }
}
