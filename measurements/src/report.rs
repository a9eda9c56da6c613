//! A log on a screen or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use latchkey_attestation::PcrSet;
use serde::{Serialize, Serializer};

use crate::bank::Bank;
use crate::check;
use crate::event::Event;
use crate::explain::describe;
use crate::log::{EventLog, Format};
use crate::mr::Mr;
use crate::replay::Replay;

/// What `latchkey measure log` shows: all events, and the PCRs of every bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// `crypto-agile` or `sha1`; of a canonical log, `cel-json` or `cel-json-seq`; of a confidential machine, `ccel`.
    pub format: &'static str,
    /// The banks of the log, replayable or not.
    pub banks: Vec<String>,
    /// Those of which not every event has a digest, and which are not replayed for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete_banks: Vec<String>,
    /// The locality that PCR 0 begins with, where the log tells: 4 where an H-CRTM measured, else that of `TPM2_Startup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_locality: Option<u8>,
    /// Bytes after the last event.
    pub padding: usize,
    /// The events in order.
    pub events: Vec<EventReport>,
    /// Bank, PCR, value: lower-case hexadecimal. Only PCRs that the log extends.
    pub pcrs: BTreeMap<String, BTreeMap<u8, String>>,
    /// RTMR0 to RTMR3 of a confidential machine (SHA-384), where the log is of one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rtmrs: BTreeMap<Mr, RtmrReport>,
}

/// One run-time measurement register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RtmrReport {
    /// What the log replays to, lower-case hexadecimal.
    pub value: String,
    /// The PCRs of a TPM that it stands for.
    pub pcrs: Vec<u8>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventReport {
    /// Position in the log, from 0.
    pub index: usize,
    /// Byte at which it begins.
    pub offset: usize,
    /// The PCR; absent for informational events of no PCR, and where no TPM has the register.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcr: Option<u8>,
    /// The measurement register of a confidential machine, where the log is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mr: Option<Mr>,
    /// The specification's name of its type, or its number.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bank and digest, lower-case hexadecimal.
    pub digests: BTreeMap<String, String>,
    /// Bytes of its data.
    pub size: usize,
    /// What was measured, in words.
    pub description: String,
    /// The data itself, where it was asked for: lower-case hexadecimal.
    #[serde(rename = "raw", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<EventData>,
    /// Whether the digests are those of the data: `matches`, `differs` or `not-of-data`.
    pub data: &'static str,
}

/// The data of an event; in JSON lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData(pub Vec<u8>);

impl Report {
    /// Everything about a TPM's `log`; a confidential machine's is told of by [`CcLog::report`](crate::cc::CcLog::report).
    pub fn of(log: &EventLog<'_>) -> Self {
        let replays = log.banks().filter_map(|bank| Replay::of(log, bank));
        let pcrs = |replay: &Replay| replay.iter().map(|(pcr, value)| (pcr, hex::encode(value))).collect();
        Self {
            format: match log.format() {
                Format::CryptoAgile(_) => "crypto-agile",
                Format::Sha1 => "sha1",
            },
            banks: log.algorithms().iter().map(ToString::to_string).collect(),
            incomplete_banks: log.incomplete().iter().map(ToString::to_string).collect(),
            startup_locality: log.startup_locality(),
            padding: log.padding(),
            events: log.events().iter().map(EventReport::of).collect(),
            pcrs: replays.map(|replay| (replay.bank().to_string(), pcrs(&replay))).collect(),
            rtmrs: BTreeMap::new(),
        }
    }

    /// With the data of the events, which are those of `log`.
    #[must_use]
    pub fn with_data(mut self, log: &EventLog<'_>) -> Self {
        for event in &mut self.events {
            event.bytes = log.events().get(event.index).map(|logged| EventData(logged.data.to_vec()));
        }
        self
    }

    /// Only what concerns these PCRs.
    #[must_use]
    pub fn only_pcrs(mut self, which: PcrSet) -> Self {
        self.events.retain(|event| event.pcr.is_some_and(|pcr| which.contains(pcr)));
        self.pcrs.values_mut().for_each(|bank| bank.retain(|&pcr, _| which.contains(pcr)));
        self
    }

    /// Only this bank; a bank that the log does not have leaves no values.
    #[must_use]
    pub fn only_bank(mut self, bank: Bank) -> Self {
        let name = bank.as_str();
        self.pcrs.retain(|other, _| other == name);
        self.events.iter_mut().for_each(|event| event.digests.retain(|other, _| other == name));
        self
    }

    /// The JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The events and values as text with aligned columns.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let width = self.events.iter().map(|event| event.kind.len()).max().unwrap_or(0);
        for event in &self.events {
            let flag = if event.is_flagged() { "  (its digest is not that of its data)" } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:>4}  {}  {:width$}  {}{flag}",
                event.index,
                event.register(!self.rtmrs.is_empty()),
                event.kind,
                event.description
            );
        }
        text.push_str(&self.not_replayed());
        for (bank, pcrs) in &self.pcrs {
            let _ = writeln!(text, "\n{bank}");
            for (pcr, value) in pcrs {
                let _ = writeln!(text, "  PCR {pcr:>2}  {value}");
            }
        }
        for (mr, rtmr) in &self.rtmrs {
            let _ = writeln!(text, "{mr}  {}  {}", rtmr.value, mr.describe());
        }
        text
    }

    /// Which banks have no values here, and why, a line for each; empty when all have.
    pub fn not_replayed(&self) -> String {
        let reason = |bank: &&String| {
            if self.incomplete_banks.contains(bank) {
                "not every event has a digest of it"
            } else {
                "its hash is not known here"
            }
        };
        let known = |bank: &&String| bank.parse::<Bank>().is_ok() && !self.incomplete_banks.contains(bank);
        let mut text = String::new();
        for bank in self.banks.iter().filter(|bank| !known(bank)) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{bank} is not replayed: {}", reason(&bank));
        }
        text
    }

    /// Events whose digests are not those of their data, though they must be.
    pub fn flagged(&self) -> impl Iterator<Item = &EventReport> {
        self.events.iter().filter(|event| event.is_flagged())
    }
}

impl Serialize for EventData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl EventReport {
    /// The register, as in text; `confidential` is the log of a machine without PCRs.
    fn register(&self, confidential: bool) -> String {
        match (self.mr, self.pcr) {
            (Some(mr), _) => format!("{mr:<6}"),
            (None, _) if confidential => format!("{:<6}", "-"),
            (None, Some(pcr)) => format!("PCR {pcr:>2}"),
            (None, None) => "PCR  -".to_owned(),
        }
    }

    /// Whether its digests are not those of its data, though they must be.
    fn is_flagged(&self) -> bool {
        self.data == "differs"
    }

    pub(crate) fn of(event: &Event<'_>) -> Self {
        Self {
            index: event.index,
            offset: event.offset,
            pcr: event.pcr(),
            mr: event.mr(),
            kind: event.kind.to_string(),
            digests: event.digests.iter().map(|(bank, digest)| (bank.to_string(), hex::encode(digest))).collect(),
            size: event.data.len(),
            description: describe(event),
            bytes: None,
            data: check::data(event).as_str(),
        }
    }
}
