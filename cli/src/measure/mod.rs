//! `latchkey measure log`: what a machine measured, in words, and the PCRs that follow from it.
//! `latchkey measure image` predicts both ([`mod@image`]).

mod canonical;
mod confidential;
mod expect;
mod image;
mod launch;
mod report;
mod tpm;

use std::path::Path;

use latchkey_attestation::parse::PcrSet;
use latchkey_measurements::cc::CcLog;
use latchkey_measurements::cel::CelLog;
use latchkey_measurements::report::Report;
use latchkey_measurements::source::{Source, SourceError};
use latchkey_measurements::{AlgorithmId, Bank, EventLog, MeasurementCode, explain_differences, replay};

use crate::arguments::Arguments;
use crate::codes::ErrorCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::Output;

pub(crate) use image::image;
use report::{LogReport, QuoteCheck};

pub(crate) fn log(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = Path::new(arguments.operand(0).unwrap_or_default());
    let source = read(path)?;
    if CelLog::is_one(source.bytes()) {
        if arguments.has("ccel") {
            return Err(CommandError::usage("--ccel is for a confidential machine's log, and this one is canonical"));
        }
        return canonical::log(path, &source, arguments, output);
    }
    if arguments.has("ccel") || CcLog::is_one(source.bytes()) {
        return confidential::log(path, &source, arguments, output);
    }
    if arguments.has("firmware-log") {
        return Err(CommandError::usage("--firmware-log is for a canonical log, and this one is the firmware's"));
    }
    let log = source.log().map_err(|error| unusable(path, &error))?;
    let pcrs = pcrs(arguments)?;
    let bank = bank(arguments, &log)?;
    let report = bank.map_or_else(|| Report::of(&log), |bank| Report::of(&log).only_bank(bank));
    let report = if pcrs == PcrSet::all() { report } else { report.only_pcrs(pcrs) };
    let report = if arguments.has("raw") { report.with_data(&log) } else { report };
    let complete = replay::firmware_pcrs().intersection(pcrs);
    let tpm = arguments.path("tpm").map(|path| tpm::compare(path, &report, complete)).transpose()?;
    let reference = arguments.path("reference-log").map(read_with_path).transpose()?;
    let differences = reference.map(|(path, reference)| {
        let reference = reference.log().map_err(|error| unusable(path, &error))?;
        Ok::<_, CommandError>(explain_differences(&reference, &log, pcrs))
    });
    let (expected, predicted) = expect::expectations(arguments, &log, pcrs)?;
    output.report(&LogReport {
        log: report,
        quote: against_quote(&source, &log, pcrs),
        tpm,
        differences: differences.transpose()?,
        expected,
        predicted,
        predicted_rtmrs: None,
    })
}

fn read(path: &Path) -> Result<Source, CommandError> {
    let file = files::read(path, Source::LIMIT)?;
    Source::read(file).map_err(|error| unusable(path, &error))
}

fn read_with_path(path: &Path) -> Result<(&Path, Source), CommandError> {
    Ok((path, read(path)?))
}

fn unusable(path: &Path, error: &SourceError) -> CommandError {
    let code = match error {
        SourceError::Log(error) => error.code().into(),
        SourceError::Evidence(refusal) => ErrorCode::of_attestation(refusal.code()),
        SourceError::NoLog => MeasurementCode::EventLogMissing.into(),
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

/// Evidence says which PCRs were quoted: does the log belong to them? That the quote is good is for `latchkey verify`.
fn against_quote(source: &Source, log: &EventLog<'_>, pcrs: PcrSet) -> Option<QuoteCheck> {
    let which = replay::firmware_pcrs().intersection(pcrs);
    let why = replay::check(log, source.quoted()?, which).err().map(|error| error.to_string());
    Some(QuoteCheck { replays: why.is_none(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_event_log_is_refused_with_a_reason_and_a_fix() {
        let failure = unusable(Path::new("x"), &Source::read(b"nonsense".to_vec()).unwrap().log().unwrap_err());
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "event-log-malformed"));
        assert!(failure.because[0].contains("no valid event log: at byte 8"), "{failure:?}");
        assert!(failure.remedy().contains("binary_bios_measurements"));
    }
}
