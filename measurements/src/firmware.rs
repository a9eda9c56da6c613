//! What the firmware of a machine measured: read from the machine's own log, and told where it changed.

use std::fmt;

use latchkey_attestation::parse::PcrSet;
use latchkey_attestation::reference::ExpectedEvent;
use latchkey_attestation::{Component, Digest, FirmwareChange, MeasuredFirmware, PcrValues};
use serde::Serialize;

use crate::bank::Bank;
use crate::difference::{EventDifference, EventSummary, between, most_specific};
use crate::explain::describe;
use crate::log::EventLog;
use crate::replay::Replay;

/// These quoted values of a machine's firmware registers with the events of its log that stand behind them: of a register that
/// the log replays to, all of them, and of any other none. `quoted` are values that its TPM signed, `log` what it sent along.
pub fn measured(quoted: &PcrValues, log: Option<&[u8]>) -> MeasuredFirmware {
    let quoted = quoted.of(FirmwareChange::registers());
    let log = log.and_then(|log| EventLog::parse(log).ok());
    let replayed = log.map_or_else(Vec::new, |log| replayed(&log, &quoted));
    MeasuredFirmware::new(&quoted, &replayed)
}

fn replayed(log: &EventLog<'_>, quoted: &PcrValues) -> Vec<ExpectedEvent> {
    let Some(replay) = Replay::of(log, Bank::Sha256) else { return Vec::new() };
    let behind = |pcr| replay.value(pcr).zip(quoted.value(pcr)).is_some_and(|(got, quoted)| got == quoted.as_bytes());
    let events = log.events().iter().filter_map(|event| {
        let pcr = event.extends().filter(|&pcr| behind(pcr))?;
        let digest = Digest(event.digest(Bank::Sha256)?.try_into().ok()?);
        Some(ExpectedEvent::new(pcr, &event.kind.to_string(), &describe(event), digest))
    });
    events.collect()
}

/// Where a machine's firmware is another than before: one or more of its registers, in the order in which they are worth to be
/// read. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Changes(Vec<RegisterChange>);

/// A register of a machine's firmware that has another value than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegisterChange {
    /// PCR index.
    pub pcr: u8,
    /// The value before.
    pub before: Digest,
    /// The value now.
    pub now: Digest,
    /// The first event that differs: `expected` was there before, and `got` is now; of an event that is new only `got`, of one
    /// that is gone only `expected`. `None` where the log of one of the two boots does not tell.
    pub event: Option<EventDifference>,
}

impl Changes {
    /// What is another in `now` than in `before`; `None` if every register that both have is the same.
    pub fn between(before: &MeasuredFirmware, now: &MeasuredFirmware) -> Option<Self> {
        let pcrs = before.pcrs().differing(now.pcrs());
        let tells = |firmware: &MeasuredFirmware, pcr| {
            firmware.pcrs().value(pcr) == Some(Digest::ZERO) || firmware.events().iter().any(|event| event.pcr == pcr)
        };
        let replayed = pcrs.iter().filter(|&pcr| tells(before, pcr) && tells(now, pcr));
        let replayed = replayed.fold(PcrSet::EMPTY, |set, pcr| set.with(pcr).unwrap_or(set));
        let events = between(before.events(), now.events(), replayed).into_iter();
        let events: Vec<_> = events.map(|event| new_or_gone(event, before.events(), now.events())).collect();
        let change = |pcr| {
            let (before, now) = before.pcrs().value(pcr).zip(now.pcrs().value(pcr))?;
            let event = events.iter().find(|event| event.pcr == pcr).cloned();
            Some(RegisterChange { pcr, before, now, event })
        };
        let mut changes: Vec<_> = pcrs.iter().filter_map(change).collect();
        let first = most_specific(events.clone()).map(|event| event.pcr);
        changes.sort_by_key(|change| (Some(change.pcr) != first, change.event.is_none(), change.pcr));
        (!changes.is_empty()).then_some(Self(changes))
    }

    /// The registers, the most telling first.
    pub fn iter(&self) -> impl Iterator<Item = &RegisterChange> {
        self.0.iter()
    }
}

/// An event that stands before those of the other boot is new, or gone, and not in the place of another.
fn new_or_gone(event: EventDifference, before: &[ExpectedEvent], now: &[ExpectedEvent]) -> EventDifference {
    let EventDifference { pcr, expected: Some(was), got: Some(is), .. } = &event else { return event };
    let follows = |events: &[ExpectedEvent], this: usize, other: &EventSummary| {
        let mut rest = events.iter().skip(this.saturating_add(1)).filter(|event| event.pcr == *pcr);
        rest.any(|event| event.digest.to_string() == other.digest)
    };
    match (follows(now, is.index, was), follows(before, was.index, is)) {
        (true, _) => EventDifference { expected: None, ..event },
        (false, true) => EventDifference { got: None, ..event },
        (false, false) => event,
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, change) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "; " })?;
            change.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for RegisterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pcr, before, now, event } = self;
        let component = Component::of(*pcr).describe();
        write!(f, "PCR {pcr} ({component}): ")?;
        let (was, is) = event.as_ref().map_or((&None, &None), |event| (&event.expected, &event.got));
        match (was, is) {
            (Some(was), Some(is)) if (&was.kind, &was.description) == (&is.kind, &is.description) => {
                write!(f, "{}, {}: was {}, is {}", is.kind, is.description, was.digest, is.digest)
            }
            (Some(was), Some(is)) => {
                write!(f, "{}, {}, in the place of {}, {}", is.kind, is.description, was.kind, was.description)
            }
            (None, Some(is)) => write!(f, "{}, {} is new", is.kind, is.description),
            (Some(was), None) => write!(f, "{}, {} is gone", was.kind, was.description),
            (None, None) => write!(f, "was {before}, is {now}; without an event log of both boots no event tells"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;
    use crate::log_sample::{empty, with_event};

    /// The log of a boot with these option ROMs, and what a TPM quotes after it.
    fn boot(version: &[u8], roms: &[&[u8]]) -> (PcrValues, Vec<u8>) {
        let log = with_event(&empty(), 0, EventType::S_CRTM_VERSION, version);
        let driver = |log: Vec<u8>, rom: &&[u8]| with_event(&log, 2, EventType::EFI_ACTION, rom);
        let log = roms.iter().fold(log, driver);
        let log = [0, 2].iter().fold(log, |log, &pcr| with_event(&log, pcr, EventType::SEPARATOR, &[0; 4]));
        let replay = Replay::of(&EventLog::parse(&log).unwrap(), Bank::Sha256).unwrap();
        let values = replay.iter().map(|(pcr, value)| (pcr, value.try_into().unwrap())).collect();
        (PcrValues::new(values).unwrap(), log)
    }

    fn firmware((quoted, log): &(PcrValues, Vec<u8>)) -> MeasuredFirmware {
        measured(quoted, Some(log))
    }

    fn replayed(before: &MeasuredFirmware, now: &MeasuredFirmware) -> String {
        Changes::between(before, now).unwrap().to_string()
    }

    #[test]
    fn what_is_new_gone_or_in_anothers_place_is_said_so() {
        let [one, two] = [&b"ROM of the disk"[..], b"ROM of the network"];
        let (few, more) = (firmware(&boot(b"1", &[one])), firmware(&boot(b"1", &[one, two])));
        assert_eq!(Changes::between(&few, &few), None);
        let rom = "PCR 2 (firmware code or configuration): EV_EFI_ACTION, ROM of the network";
        assert_eq!(replayed(&few, &more), format!("{rom} is new"));
        assert_eq!(replayed(&more, &few), format!("{rom} is gone"));
        let other = firmware(&boot(b"1", &[two]));
        assert_eq!(replayed(&few, &other), format!("{rom}, in the place of EV_EFI_ACTION, ROM of the disk"));
        let all = replayed(&few, &firmware(&boot(b"2", &[one, two])));
        assert!(all.starts_with("PCR 0 ") && all.contains("; PCR 2 ") && all.ends_with("is new"), "{all}");
    }

    #[test]
    fn events_of_a_log_that_does_not_replay_are_not_kept_and_none_is_named() {
        let (before, now) = (boot(b"1", &[b"a"]), boot(b"1", &[b"b"]));
        // The values of the one boot with the log of the other: PCR 0 replays, PCR 2 does not.
        let lying = measured(&now.0, Some(&before.1));
        assert!(!lying.events().is_empty() && lying.events().iter().all(|event| event.pcr == 0), "{lying:?}");
        let text = replayed(&firmware(&before), &lying);
        assert!(text.contains("no event tells") && !text.contains("EV_EFI_ACTION"), "{text}");
        for log in [None, Some(&b"no log"[..]), Some(&now.1[..now.1.len() - 1])] {
            let made = measured(&now.0, log);
            assert_eq!((made.events().len(), made.pcrs().set()), (0, PcrSet::of(&[0, 2]).unwrap()));
        }
    }
}
