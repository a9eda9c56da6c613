//! `latchkey collateral fetch`.

use latchkey_attestation::parse::{SnpProduct, SnpReport};
use latchkey_collateral::fetch::{FetchError, Fetched, Fetcher, KDS, LIMITS, Origin, State};
use serde::Serialize;

use super::KeptReport;
use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::ErrorCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};

pub(crate) fn fetch(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.required_path("snp-report")?;
    let to = arguments.required_path("to")?;
    let from = arguments.text("from")?.unwrap_or(KDS);
    let report = KeptReport::read(path, None)?.report;
    let product = product(arguments, &report)?;
    let origin = Origin::parse(from).map_err(|error| failed(&error))?;
    output.waiting(&format!("files of AMD's from {from}"));
    let fetched = Fetcher::new(origin, LIMITS).and_then(|fetcher| fetcher.fetch_snp(&report, product, to, now()));
    let files = fetched.map_err(|error| failed(&error))?.iter().map(Row::of).collect();
    output.report(&FetchReport { from: from.to_owned(), files })
}

/// What the operator says of the processor, which the report must not contradict.
fn product(arguments: &Arguments, report: &SnpReport) -> Result<Option<SnpProduct>, CommandError> {
    let Some(name) = arguments.text("product")? else { return Ok(None) };
    let known = SnpProduct::ALL.into_iter().find(|product| product.name().eq_ignore_ascii_case(name));
    let product = known.ok_or_else(|| {
        let fix = "say milan, genoa (of Bergamo and Siena, too) or turin";
        CommandError::usage(format!("--product {name}: there is no such product here")).fix(fix)
    })?;
    match report.product() {
        Some(says) if says != product => {
            let what = format!("--product {name}: the report is of {says}");
            Err(CommandError::usage(what).fix("leave --product out: the report says it"))
        }
        _ => Ok(Some(product)),
    }
}

fn failed(error: &FetchError) -> CommandError {
    let what = "AMD's files were not got, and nothing was written";
    match error {
        FetchError::Refused { place, refusal } => CommandError::refused(Exit::Failed, what, refusal).because(place),
        // Writing itself may have failed at the second file.
        FetchError::Io { .. } => CommandError::local(ErrorCode::Known(error.reason()), "AMD's files cannot be written")
            .because(error.to_string()),
        error => CommandError::local(ErrorCode::Known(error.reason()), what).because(error.to_string()),
    }
}

/// Files that verify are there.
#[derive(Serialize)]
struct FetchReport {
    from: String,
    files: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    file: String,
    state: &'static str,
}

impl Row {
    fn of(fetched: &Fetched) -> Self {
        let state = match fetched.state {
            State::Written => "written",
            State::Unchanged => "unchanged",
            State::NewerThere => "newer-there",
        };
        Self { file: fetched.path.display().to_string(), state }
    }
}

impl Report for FetchReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["FILE", "STATE"]);
        for Row { file, state } in &self.files {
            table.row([file.clone(), (*state).to_owned()]);
        }
        table.to_string()
    }
}
