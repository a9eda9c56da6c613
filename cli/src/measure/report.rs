//! What `latchkey measure log` found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use latchkey_attestation::parse::Component;
use latchkey_attestation::reference::Rule;
use latchkey_attestation::{Digest, ImageVersion};
use latchkey_measurements::EventDifference;
use latchkey_measurements::difference::EventSummary;
use latchkey_measurements::report::{EventData, EventReport as EventRow, Report as EventReport};
use serde::Serialize;

use super::confidential::RtmrComparison;
use super::tpm::TpmComparison;
use crate::exit::Exit;
use crate::output::{Report, Style, Table, Tone, printable};

/// A log, and how it stands beside everything that it was held against.
#[derive(Serialize)]
pub(super) struct LogReport {
    #[serde(flatten)]
    pub(super) log: EventReport,
    /// Beside the registers in the same evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quote: Option<QuoteCheck>,
    /// Beside the registers of a TPM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tpm: Option<TpmComparison>,
    /// The first event of each register that differs from a reference log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differences: Option<Vec<EventDifference>>,
    /// Beside a manifest of reference values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<Vec<ManifestComparison>>,
    /// Beside what an image should have measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted: Option<PredictionComparison>,
    /// Beside what a TDX guest should have measured of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted_rtmrs: Option<RtmrComparison>,
}

impl LogReport {
    /// Beside nothing.
    pub(super) fn of(log: EventReport) -> Self {
        Self { log, quote: None, tpm: None, differences: None, expected: None, predicted: None, predicted_rtmrs: None }
    }
}

impl Report for LogReport {
    fn text(&self, style: Style) -> String {
        let mut text = events_and_registers(&self.log, style);
        text.extend(self.quote.iter().map(|quote| quote.text(style)));
        text.extend(self.tpm.iter().map(|tpm| tpm.text(style)));
        text.extend(self.differences.iter().map(|differences| differing_events(differences, style)));
        text.extend(self.expected.iter().map(|expected| ManifestComparison::text(expected, style)));
        text.extend(self.predicted.iter().map(|predicted| predicted.text(style)));
        text.extend(self.predicted_rtmrs.iter().map(|predicted| predicted.text(style)));
        text
    }

    fn exit(&self) -> Exit {
        let of_manifest = self.expected.as_ref().is_none_or(|all| all.iter().any(|one| one.matches));
        let of_image = self.predicted.as_ref().is_none_or(|predicted| predicted.differences.is_empty());
        let of_tpm = self.tpm.as_ref().is_none_or(|tpm| tpm.matches);
        let of_guest = self.predicted_rtmrs.as_ref().is_none_or(RtmrComparison::matches);
        if of_manifest && of_image && of_guest && of_tpm { Exit::Done } else { Exit::Attestation }
    }
}

fn events_and_registers(log: &EventReport, style: Style) -> String {
    let register = if log.rtmrs.is_empty() { "PCR" } else { "REGISTER" };
    let mut events = Table::new(&["EVENT", register, "TYPE", "WHAT"]);
    for event in &log.events {
        let register = event.mr.map(|mr| mr.to_string()).or_else(|| event.pcr.map(|pcr| pcr.to_string()));
        let register = register.unwrap_or_else(|| "-".to_owned());
        let kind = event.kind.trim_start_matches("EV_").to_owned();
        events.row([event.index.to_string(), register, kind, event.description.clone()]);
    }
    let mut text = events.to_string();
    text.extend(log.events.iter().filter_map(data_of_event));
    for (bank, pcrs) in &log.pcrs {
        let mut values =
            Table::new(&["PCR", &format!("REPLAYED, {}", bank.to_uppercase()), "WHAT IS MEASURED INTO IT"]);
        for (&pcr, value) in pcrs {
            values.row([pcr.to_string(), value.clone(), Component::of(pcr).describe().to_owned()]);
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{values}");
    }
    if !log.rtmrs.is_empty() {
        let mut values = Table::new(&["REGISTER", "REPLAYED, SHA384", "WHAT IS MEASURED INTO IT"]);
        for (mr, rtmr) in &log.rtmrs {
            values.row([mr.to_string(), rtmr.value.clone(), mr.describe().to_owned()]);
        }
        let _ = write!(text, "\n{values}");
    }
    text.push_str(&log.not_replayed());
    let flagged: Vec<_> = log.flagged().map(|event| event.index.to_string()).collect();
    if !flagged.is_empty() {
        let warning = style.paint(Tone::Bad, "warning:");
        let _ = write!(
            text,
            "\n{warning} the digests of these events are not those of their data, which therefore explains nothing: {}\n",
            flagged.join(", ")
        );
    }
    text
}

/// The data of an event where it was asked for, at most [`SHOWN_BYTES`] of it, as `hexdump -C` prints it.
fn data_of_event(event: &EventRow) -> Option<String> {
    let EventData(bytes) = event.bytes.as_ref()?;
    let mut text = format!("\nevent {}, {} bytes\n", event.index, bytes.len());
    for (at, line) in bytes.chunks(16).enumerate().take(SHOWN_BYTES / 16) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let letters: String = line.iter().map(shown).collect();
        let _ = writeln!(text, "  {:08x}  {:<47}  |{letters}|", at * 16, digits.join(" "));
    }
    if let Some(more) = bytes.len().checked_sub(SHOWN_BYTES).filter(|more| *more > 0) {
        let _ = writeln!(text, "  {more} bytes more: --output json has all");
    }
    Some(text)
}

/// Of one event; a boot variable may have tens of thousands.
const SHOWN_BYTES: usize = 1024;

fn differing_events(differences: &[EventDifference], style: Style) -> String {
    if differences.is_empty() {
        return format!("\n{}\n", style.paint(Tone::Good, "no event differs from the reference log"));
    }
    let heading = style.paint(Tone::Bad, "the first event of each PCR that differs from the reference log:");
    let lines = differences.iter().map(|difference| format!("  {difference}\n"));
    format!("\n{heading}\n{}", lines.collect::<String>())
}

/// Whether a log belongs to the registers in the same evidence. That these were quoted is for `latchkey verify`.
#[derive(Serialize)]
pub(super) struct QuoteCheck {
    pub(super) replays: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl QuoteCheck {
    fn text(&self, style: Style) -> String {
        let line = match &self.why {
            None => style.paint(Tone::Good, "the log replays to the PCR values of the evidence"),
            Some(why) => style.paint(Tone::Bad, why),
        };
        format!("\n{line}\n")
    }
}

/// A log beside one machine type of one image of a manifest.
#[derive(Serialize)]
pub(super) struct ManifestComparison {
    pub(super) image: String,
    pub(super) version: ImageVersion,
    pub(super) machine: String,
    pub(super) matches: bool,
    pub(super) differing: BTreeMap<u8, DifferingRegister>,
    /// Of the closest: the first event of each register that is not as the manifest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Vec<EventDifference>>,
    /// Whether the manifest names events.
    #[serde(skip)]
    pub(super) explained: bool,
}

/// A register with another value than expected.
#[derive(Serialize)]
pub(super) struct DifferingRegister {
    pub(super) expected: Digest,
    pub(super) got: String,
    pub(super) rule: Rule,
}

impl ManifestComparison {
    fn text(all: &[Self], style: Style) -> String {
        let mut text: String = all.iter().map(|one| one.registers(style)).collect();
        text.extend(all.iter().filter_map(|one| one.first_events(style)));
        text
    }

    fn name(&self) -> String {
        format!("{} {} on {}", self.image, self.version, self.machine)
    }

    fn registers(&self, style: Style) -> String {
        let name = self.name();
        let verdict = if self.matches {
            style.paint(Tone::Good, &format!("the log is that of {name}"))
        } else {
            style.paint(Tone::Bad, &format!("the log is not that of {name}; what differs:"))
        };
        let mut text = format!("\n{verdict}\n");
        for (pcr, DifferingRegister { expected, got, .. }) in &self.differing {
            let component = Component::of(*pcr).describe();
            let _ = writeln!(text, "  PCR {pcr} ({component}): expected {expected}, got {got}");
        }
        text
    }

    fn first_events(&self, style: Style) -> Option<String> {
        let (differences, name) = (self.events.as_ref()?, self.name());
        let heading = if self.explained {
            format!("the first event of each PCR that is not as {name} has it:")
        } else {
            format!("{name}: the manifest does not tell the events behind its values")
        };
        let mut text = format!("\n{}\n", style.paint(Tone::Bad, &heading));
        for difference in differences {
            let _ = writeln!(text, "  {}", printable(&difference.to_string()));
        }
        Some(text)
    }
}

/// A log beside what an image should have measured on the type of machine that fits best.
#[derive(Serialize)]
pub(super) struct PredictionComparison {
    pub(super) machine: String,
    pub(super) differences: Vec<EventDifference>,
    #[serde(skip)]
    pub(super) image: String,
}

impl PredictionComparison {
    fn text(&self, style: Style) -> String {
        let name = format!("{} on {}", self.image, self.machine);
        if self.differences.is_empty() {
            let line = style.paint(Tone::Good, &format!("every event is as predicted from {name}"));
            return format!("\n{line}\n");
        }
        let heading = format!("the first event of each PCR that is not as predicted from {name}:");
        let mut text = format!("\n{}\n", style.paint(Tone::Bad, &heading));
        for difference in &self.differences {
            let digests = digests(difference.expected.as_ref(), difference.got.as_ref());
            let _ = writeln!(text, "  {}\n{digests}", printable(&difference.to_string()));
        }
        text
    }
}

/// What a program that is another one, and is described by the same words, differs by.
pub(super) fn digests(expected: Option<&EventSummary>, got: Option<&EventSummary>) -> String {
    let of = |event: Option<&EventSummary>| event.map_or("none", |event| event.digest.as_str()).to_owned();
    format!("      expected digest  {}\n      got digest       {}", of(expected), of(got))
}

#[cfg(test)]
mod tests {
    use latchkey_attestation::parse::PcrSet;
    use latchkey_measurements::{EventLog, explain_differences};

    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/../measurements/tests/fixtures/{name}.bin", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn a_foreign_command_line_is_listed_replayed_and_named_as_the_difference() {
        let (honest, foreign) = (fixture("honest"), fixture("override"));
        let (honest, foreign) = (EventLog::parse(&honest).unwrap(), EventLog::parse(&foreign).unwrap());
        let differences = explain_differences(&honest, &foreign, PcrSet::all());
        assert_eq!(differences.first().map(|difference| difference.pcr), Some(12));
        let report = LogReport { differences: Some(differences), ..LogReport::of(EventReport::of(&foreign)) };
        let text = report.text(Style::PLAIN);
        assert!(text.contains("12   IPL                            console=ttyS0 panic=-1 evil=1\n"), "{text}");
        assert!(text.contains("caa5ae3d732efcee57ee8a2460427abbaa3fb7d361840056f33e59441d33350b"), "{text}");
        assert!(text.contains("evil=1) is not expected") && !text.contains("warning:"), "{text}");
        assert_eq!(explain_differences(&honest, &honest, PcrSet::all()), []);
    }

    #[test]
    fn data_that_was_not_measured_is_warned_about() {
        let mut log = fixture("honest");
        let text = b"Calling EFI Application from Boot Option";
        let at = log.windows(text.len()).position(|window| window == text).unwrap();
        log[at] = b'c';
        let text = LogReport::of(EventReport::of(&EventLog::parse(&log).unwrap())).text(Style::PLAIN);
        assert!(text.contains("explains nothing: 13\n"), "{text}");
    }

    #[test]
    fn another_boot_program_of_the_same_name_is_told_apart_by_its_digest() {
        let event = |digest: &str| EventSummary {
            index: 7,
            kind: "EV_EFI_BOOT_SERVICES_APPLICATION".to_owned(),
            description: "EFI application".to_owned(),
            digest: digest.repeat(32),
        };
        let (expected, got) = (Some(event("ab")), None);
        let shown = digests(expected.as_ref(), got);
        assert!(shown.contains(&"ab".repeat(32)) && shown.ends_with("got digest       none"), "{shown}");
    }
}
