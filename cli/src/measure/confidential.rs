//! `latchkey measure log` of a confidential machine's event log (CCEL): measurement registers in the place of PCRs.

use std::path::Path;

use latchkey_measurements::Bank;
use latchkey_measurements::cc::CcLog;
use latchkey_measurements::source::{Source, SourceError};

use super::report::LogReport;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

pub(super) fn log(path: &Path, source: &Source, arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    if source.quoted().is_some() {
        let why = format!(
            "{} is evidence with a TPM's quote, which says nothing about the registers of a confidential machine's log (CCEL)",
            path.display()
        );
        return Err(CommandError::usage(why).fix("give the log alone, as a file"));
    }
    for flag in ["pcr", "firmware-log", "tpm", "reference-log", "expect", "expect-image", "machine"] {
        if arguments.has(flag) {
            let why = format!("--{flag} is for a TPM's log, and this one is a confidential machine's (CCEL)");
            return Err(CommandError::usage(why));
        }
    }
    if let Some(bank) = arguments.value::<Bank>("bank")? {
        super::in_log(bank, &[Bank::Sha384.algorithm()])?;
    }
    let log = CcLog::parse(source.bytes()).map_err(|error| {
        super::unusable(path, &SourceError::Log(error))
            .fix("give Linux's /sys/firmware/acpi/tables/data/CCEL, or a copy of it")
    })?;
    let report = if arguments.has("raw") { log.report_with_data() } else { log.report() };
    output.report(&LogReport::of(report))
}
