//! `latchkey measure log` of a canonical event log, as systemd writes one after the firmware's log has ended.

use std::path::Path;

use latchkey_attestation::parse::PcrSet;
use latchkey_measurements::cel::{self, CelLog, Form};
use latchkey_measurements::source::Source;
use latchkey_measurements::{Bank, Replay};

use super::report::LogReport;
use super::tpm;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

pub(super) fn log(path: &Path, source: &Source, arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    for flag in ["expect", "expect-image", "machine", "raw"] {
        if arguments.has(flag) {
            return Err(CommandError::usage(format!("--{flag} is for the firmware's log, and this one is canonical")));
        }
    }
    let log = parse(path, source)?;
    let (pcrs, bank) = (super::pcrs(arguments)?, bank(arguments, &log)?);
    let earlier = arguments.path("firmware-log").map(firmware).transpose()?;
    if earlier.is_none() && log.form() == Form::Sequence {
        let note = "the registers are as if nothing had been measured before; --firmware-log goes on from there";
        output.say(Tone::Faint, "note", note);
    }
    let report = earlier.map_or_else(|| log.report(), |earlier| log.report_after(&earlier));
    let report = match bank {
        Some(bank) => report.only_bank(bank),
        None => report,
    };
    let report = if pcrs == PcrSet::all() { report } else { report.only_pcrs(pcrs) };
    let differences = arguments.path("reference-log").map(|reference| {
        let trusted = parse(reference, &super::read(reference)?)?;
        Ok::<_, CommandError>(cel::explain_differences(&trusted, &log, pcrs))
    });
    let tpm = arguments.path("tpm").map(|path| tpm::compare(path, &report, PcrSet::EMPTY)).transpose()?;
    output.report(&LogReport { differences: differences.transpose()?, tpm, ..LogReport::of(report) })
}

fn parse(path: &Path, source: &Source) -> Result<CelLog, CommandError> {
    CelLog::parse(source.bytes()).map_err(|error| {
        CommandError::new(Exit::Usage, error.code(), format!("{} cannot be used", path.display()))
            .because(error.to_string())
            .fix("give systemd's /run/log/systemd/tpm2-measure.log, or another log in TCG's canonical JSON form")
    })
}

/// What the firmware's log of the same boot replays to.
fn firmware(path: &Path) -> Result<Vec<Replay>, CommandError> {
    let source = super::read(path)?;
    let log = source.log().map_err(|error| super::unusable(path, &error))?;
    Ok(log.banks().filter_map(|bank| Replay::of(&log, bank)).collect())
}

fn bank(arguments: &Arguments, log: &CelLog) -> Result<Option<Bank>, CommandError> {
    let Some(bank) = arguments.value::<Bank>("bank")? else { return Ok(None) };
    super::in_log(bank, log.algorithms()).map(Some)
}
