//! `latchkey measure log`: what a machine measured, in words, and the PCRs that follow from it.
//! `latchkey measure image` predicts both ([`mod@image`]).

mod canonical;
mod expect;
mod image;
mod launch;

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::parse::{Component, PcrSet};
use latchkey_measurements::cel::CelLog;
use latchkey_measurements::report::Report;
use latchkey_measurements::source::{Source, SourceError};
use latchkey_measurements::{AlgorithmId, Bank, EventDifference, EventLog, explain_differences, replay};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Table, Tone};

pub(crate) use image::image;

pub(crate) fn log(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = Path::new(arguments.operand(0).unwrap_or_default());
    let source = read(path)?;
    if CelLog::is_one(source.bytes()) {
        return canonical::log(path, &source, arguments, output);
    }
    if arguments.has("firmware-log") {
        return Err(CommandError::usage("--firmware-log is for a canonical log, and this one is the firmware's"));
    }
    let log = source.log().map_err(|error| unusable(path, &error))?;
    let pcrs = pcrs(arguments)?;
    let bank = bank(arguments, &log)?;
    let report = bank.map_or_else(|| Report::of(&log), |bank| Report::of(&log).only_bank(bank));
    let report = if pcrs == PcrSet::all() { report } else { report.only_pcrs(pcrs) };
    let mut json = json!(report);
    let mut text = human(&report, output);
    if let Some((told, value)) = against_quote(&source, &log, pcrs, output) {
        json["quote"] = value;
        text.push_str(&told);
    }
    if let Some(reference) = arguments.path("reference-log") {
        let reference_source = read(reference)?;
        let reference = reference_source.log().map_err(|error| unusable(reference, &error))?;
        let (told, value) = against_log(&reference, &log, pcrs, output);
        json["differences"] = value;
        text.push_str(&told);
    }
    let expected = expect::expectations(arguments, &log, pcrs, output)?;
    text.push_str(&expected.text);
    for (name, value) in expected.json {
        json[name] = value;
    }
    let printed = output.result(&json, &text)?;
    Ok(if expected.as_expected { printed } else { Exit::Attestation })
}

fn read(path: &Path) -> Result<Source, CommandError> {
    let file = files::read(path, Source::LIMIT)?;
    Source::read(file).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &SourceError) -> CommandError {
    let code = match error {
        SourceError::Log(_) => CommandCode::EventLogMalformed.into(),
        SourceError::Evidence(refusal) => ErrorCode::of_attestation(refusal.code()),
        SourceError::NoLog => CommandCode::EventLogMissing.into(),
    };
    CommandError::new(Exit::Usage, code, format!("{} cannot be used", path.display()))
        .because(error.to_string())
        .fix("give the kernel's binary_bios_measurements, or evidence kept by `latchkey verify` that has an event log")
}

/// `--pcr 4,9`, or once for each; all without.
fn pcrs(arguments: &Arguments) -> Result<PcrSet, CommandError> {
    let mut set = PcrSet::EMPTY;
    for text in arguments.texts("pcr")?.into_iter().flat_map(|list| list.split(',')) {
        let added = text.parse().ok().and_then(|index| set.with(index));
        set = added.ok_or_else(|| CommandError::usage(format!("--pcr {text}: expected 0 to 23")))?;
    }
    Ok(if set.is_empty() { PcrSet::all() } else { set })
}

fn bank(arguments: &Arguments, log: &EventLog<'_>) -> Result<Option<Bank>, CommandError> {
    let Some(bank) = arguments.value::<Bank>("bank")? else { return Ok(None) };
    in_log(bank, log.algorithms()).map(Some)
}

fn in_log(bank: Bank, algorithms: &[AlgorithmId]) -> Result<Bank, CommandError> {
    if algorithms.contains(&bank.algorithm()) {
        // One that is not replayed is listed with the reason.
        return Ok(bank);
    }
    let banks: Vec<_> = algorithms.iter().map(ToString::to_string).collect();
    Err(CommandError::usage(format!("--bank {bank}: the log has {}", banks.join(", "))))
}

fn human(report: &Report, output: &Output) -> String {
    let mut events = Table::new(&["EVENT", "PCR", "TYPE", "WHAT"]);
    for event in &report.events {
        let pcr = event.pcr.map_or_else(|| "-".to_owned(), |pcr| pcr.to_string());
        let kind = event.kind.trim_start_matches("EV_").to_owned();
        events.row([event.index.to_string(), pcr, kind, event.description.clone()]);
    }
    let mut text = events.to_string();
    for (bank, pcrs) in &report.pcrs {
        let mut values =
            Table::new(&["PCR", &format!("REPLAYED, {}", bank.to_uppercase()), "WHAT IS MEASURED INTO IT"]);
        for (&pcr, value) in pcrs {
            values.row([pcr.to_string(), value.clone(), Component::of(pcr).describe().to_owned()]);
        }
        let _ = write!(text, "\n{values}");
    }
    text.push_str(&report.not_replayed());
    let flagged: Vec<_> = report.flagged().map(|event| event.index.to_string()).collect();
    if !flagged.is_empty() {
        let warning = output.paint(Tone::Bad, "warning:");
        let _ = write!(
            text,
            "\n{warning} the digests of these events are not those of their data, which therefore explains nothing: {}\n",
            flagged.join(", ")
        );
    }
    text
}

/// Evidence says which PCRs were quoted: does the log belong to them? That the quote is good is for `latchkey verify`.
fn against_quote(source: &Source, log: &EventLog<'_>, pcrs: PcrSet, output: &Output) -> Option<(String, Value)> {
    let which = replay::firmware_pcrs().intersection(pcrs);
    Some(match replay::check(log, source.quoted()?, which) {
        Ok(()) => {
            let told = output.paint(Tone::Good, "the log replays to the PCR values of the evidence");
            (format!("\n{told}\n"), json!({"replays": true}))
        }
        Err(fault) => {
            let told = output.paint(Tone::Bad, &fault.to_string());
            (format!("\n{told}\n"), json!({"replays": false, "why": fault.to_string()}))
        }
    })
}

fn against_log(reference: &EventLog<'_>, log: &EventLog<'_>, pcrs: PcrSet, output: &Output) -> (String, Value) {
    told(&explain_differences(reference, log, pcrs), output)
}

fn told(differences: &[EventDifference], output: &Output) -> (String, Value) {
    if differences.is_empty() {
        let told = output.paint(Tone::Good, "no event differs from the reference log");
        return (format!("\n{told}\n"), json!([]));
    }
    let heading = output.paint(Tone::Bad, "the first event of each PCR that differs from the reference log:");
    let lines = differences.iter().map(|difference| format!("  {difference}\n"));
    (format!("\n{heading}\n{}", lines.collect::<String>()), json!(differences))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/../measurements/tests/fixtures/{name}.bin", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn a_foreign_command_line_is_listed_replayed_and_named_as_the_difference() {
        let (honest, foreign) = (fixture("honest"), fixture("override"));
        let (honest, foreign) = (EventLog::parse(&honest).unwrap(), EventLog::parse(&foreign).unwrap());
        let output = Output::new(crate::output::Format::Human, false);
        let text = human(&Report::of(&foreign), &output);
        assert!(text.contains("12   IPL                            console=ttyS0 panic=-1 evil=1\n"), "{text}");
        assert!(text.contains("caa5ae3d732efcee57ee8a2460427abbaa3fb7d361840056f33e59441d33350b"), "{text}");
        assert!(!text.contains("warning:"), "{text}");
        let (told, json) = against_log(&honest, &foreign, PcrSet::all(), &output);
        assert!(told.contains("evil=1) is not expected"), "{told}");
        assert_eq!(json[0]["pcr"], 12);
        let (_, none) = against_log(&honest, &honest, PcrSet::all(), &output);
        assert_eq!(none, json!([]));
    }

    #[test]
    fn data_that_was_not_measured_is_warned_about() {
        let mut log = fixture("honest");
        let text = b"Calling EFI Application from Boot Option";
        let at = log.windows(text.len()).position(|window| window == text).unwrap();
        log[at] = b'c';
        let text =
            human(&Report::of(&EventLog::parse(&log).unwrap()), &Output::new(crate::output::Format::Human, false));
        assert!(text.contains("explains nothing: 13\n"), "{text}");
    }

    #[test]
    fn what_is_no_event_log_is_refused_with_a_reason_and_a_fix() {
        let failure = unusable(Path::new("x"), &Source::read(b"nonsense".to_vec()).unwrap().log().unwrap_err());
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "event-log-malformed"));
        assert!(failure.because[0].contains("at byte 0"), "{failure:?}");
        assert!(failure.remedy().contains("binary_bios_measurements"));
    }
}
