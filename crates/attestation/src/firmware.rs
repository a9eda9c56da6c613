//! What the firmware of one machine measured in one boot, as its record keeps it.
//!
//! The values are what a TPM signed. The events are of the machine's own log, as far as that replays to the values: they explain
//! a change and never decide on one. A machine writes its own log, so both are bounded when they are made and when they are read.

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::parse::{Digest, PcrSet, PcrValues};
use crate::policy::FirmwareChange;
use crate::reference::ExpectedEvent;

/// Values of a machine's firmware registers, with the events behind them.
///
/// JSON: `{"pcrs": {index: hex}, "events": [{"pcr", "type", "what", "digest"}]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFirmware {
    pcrs: PcrValues,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<ExpectedEvent>,
}

impl MeasuredFirmware {
    /// Most events that are kept. A board with many option ROMs has some sixty.
    pub const MAX_EVENTS: usize = 128;

    /// These values, and the events of those of `told` that are behind one of them; each in at most 200 bytes of words. A register
    /// has all of its events or none: code (0 and 2) comes first where there are too many.
    pub fn new(pcrs: &PcrValues, told: &[ExpectedEvent]) -> Self {
        let pcrs = pcrs.of(FirmwareChange::registers());
        let of = |pcr| told.iter().filter(move |event| event.pcr == pcr);
        let mut room = Self::MAX_EVENTS;
        let mut kept = PcrSet::EMPTY;
        for pcr in BY_WEIGHT.into_iter().filter(|pcr| pcrs.value(*pcr).is_some()) {
            if let Some(left) = room.checked_sub(of(pcr).count()) {
                (room, kept) = (left, kept.with(pcr).unwrap_or(kept));
            }
        }
        let events = told.iter().filter(|event| kept.contains(event.pcr)).map(|event| event.shortened(MAX_WORDS));
        Self { events: events.collect(), pcrs }
    }

    /// The quoted values.
    pub fn pcrs(&self) -> &PcrValues {
        &self.pcrs
    }

    /// What is known of how they came about, in the order of the boot.
    pub fn events(&self) -> &[ExpectedEvent] {
        &self.events
    }

    /// The events of these registers.
    pub fn events_of(&self, pcrs: PcrSet) -> Vec<ExpectedEvent> {
        self.events.iter().filter(|event| pcrs.contains(event.pcr)).cloned().collect()
    }

    /// The same, with what `other` has of registers that this has not.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let new = other.pcrs.set().without(self.pcrs.set());
        let told: Vec<_> = self.events.iter().cloned().chain(other.events_of(new)).collect();
        Self::new(&self.pcrs.or(&other.pcrs), &told)
    }

    /// What names these values: SHA-256 over index and value of each register, ascending. Events do not count.
    pub fn digest(&self) -> Digest {
        let mut hash = Context::new(&SHA256);
        for (index, value) in self.pcrs.iter() {
            hash.update(&[index]);
            hash.update(value.as_bytes());
        }
        let mut digest = Digest::ZERO;
        digest.0.copy_from_slice(hash.finish().as_ref());
        digest
    }

    /// Why this is none, as it was read from a file.
    pub fn problem(&self) -> Option<&'static str> {
        let registers = self.pcrs.set();
        if registers.is_empty() || !registers.without(FirmwareChange::registers()).is_empty() {
            return Some("firmware's registers are 0 to 3 and 6, and at least one of them is measured");
        }
        if self.events.len() > Self::MAX_EVENTS {
            return Some("more events of firmware than 128");
        }
        let sound =
            |event: &ExpectedEvent| registers.contains(event.pcr) && event.is_sound() && event.what.len() <= MAX_WORDS;
        (!self.events.iter().all(sound)).then_some("an event of firmware is of another register, or has unfit words")
    }
}

/// Code before settings: those of PCR 1 are the most, and change the most.
const BY_WEIGHT: [u8; 5] = [0, 2, 3, 6, 1];
/// For the words of one event, in bytes.
const MAX_WORDS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn values(indices: &[u8]) -> PcrValues {
        PcrValues::new(indices.iter().map(|&index| (index, [index; 32])).collect()).unwrap()
    }

    fn events(pcr: u8, count: usize, words: &str) -> Vec<ExpectedEvent> {
        let event = |_| ExpectedEvent::new(pcr, "EV_EFI_BOOT_SERVICES_DRIVER", words, Digest([pcr; 32]));
        (0..count).map(event).collect()
    }

    #[test]
    fn a_log_with_too_many_events_keeps_those_of_code_and_all_or_none_of_a_register() {
        let told = [events(1, 120, "a setting"), events(2, 9, "an option ROM"), events(4, 3, "a loader")].concat();
        let made = MeasuredFirmware::new(&values(&[0, 1, 2, 4]), &told);
        assert_eq!(made.pcrs().set(), PcrSet::of(&[0, 1, 2]).unwrap(), "4 is not the firmware's");
        assert_eq!(made.events(), &told[120..129], "129 are too many: those of PCR 1 go");
        assert_eq!(made.problem(), None);
    }

    #[test]
    fn the_largest_that_can_be_made_is_bounded_and_can_be_read() {
        // What costs most as JSON, per byte of words.
        for worst in ["\"", "\\", "\u{1f600}", "\u{7}"] {
            let made = MeasuredFirmware::new(&values(&[0, 1, 2, 3, 6]), &events(2, 128, &worst.repeat(4000)));
            assert_eq!((made.events().len(), made.problem()), (128, None));
            let json = serde_json::to_vec_pretty(&made).unwrap();
            assert!(json.len() < 100_000, "{worst:?}: {}", json.len());
            assert_eq!(serde_json::from_slice::<MeasuredFirmware>(&json).unwrap(), made);
        }
    }

    #[test]
    fn what_a_file_says_of_firmware_is_checked() {
        let good = MeasuredFirmware::new(&values(&[0, 2]), &events(2, 2, "an option ROM"));
        let of =
            |pcrs: &[u8], events: &[ExpectedEvent]| MeasuredFirmware { pcrs: values(pcrs), events: events.to_vec() };
        assert_eq!(good.problem(), None);
        let long = ExpectedEvent::new(2, "EV_ACTION", &"x".repeat(201), Digest::ZERO);
        for bad in [
            of(&[], &[]),
            of(&[0, 4], &[]),
            of(&[0], good.events()),
            of(&[2], &events(2, 129, "x")),
            of(&[2], &[long]),
            of(&[2], &[ExpectedEvent { what: "a\nb".into(), ..good.events()[0].clone() }]),
        ] {
            assert!(bad.problem().is_some(), "{bad:?}");
        }
    }
}
