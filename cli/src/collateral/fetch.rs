//! `latchkey collateral fetch`.

use latchkey_attestation::parse::{SnpProduct, SnpReport};
use latchkey_collateral::fetch::{FetchError, Fetched, Fetcher, KDS, LIMITS, Origin, PCS, State};
use serde::Serialize;

use super::{KeptQuote, KeptReport};
use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::ErrorCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};

pub(crate) fn fetch(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let to = arguments.required_path("to")?;
    match (arguments.path("snp-report"), arguments.path("tdx-quote")) {
        (Some(path), None) => {
            let report = KeptReport::read(path, None)?.report;
            let product = product(arguments, &report)?;
            let fetch = |fetcher: &Fetcher| fetcher.fetch_snp(&report, product, to, now());
            fetch_from(arguments, output, ("AMD", KDS), fetch)
        }
        (None, Some(path)) => {
            if arguments.has("product") {
                return Err(CommandError::usage("--product goes with --snp-report: a quote says its platform"));
            }
            let quote = KeptQuote::read(path)?;
            let fetch = |fetcher: &Fetcher| fetcher.fetch_tdx(quote.bytes(), to, now());
            fetch_from(arguments, output, ("Intel", PCS), fetch)
        }
        (Some(_), Some(_)) => Err(CommandError::usage("--snp-report and --tdx-quote exclude each other")),
        (None, None) => {
            let failure = CommandError::usage("--snp-report FILE or --tdx-quote FILE is missing");
            Err(failure.fix("name what the files are to verify: a report of SEV-SNP or a quote of TDX"))
        }
    }
}

/// From `--from`, or from the vendor itself.
fn fetch_from(
    arguments: &Arguments,
    output: &Output,
    (vendor, official): (&str, &str),
    fetch: impl FnOnce(&Fetcher) -> Result<Vec<Fetched>, FetchError>,
) -> Result<Exit, CommandError> {
    let from = arguments.text("from")?.unwrap_or(official);
    let origin = Origin::parse(from).map_err(|error| failed(vendor, &error))?;
    output.waiting(&format!("files of {vendor}'s from {from}"));
    let fetched = Fetcher::new(origin, LIMITS).and_then(|fetcher| fetch(&fetcher));
    let files = fetched.map_err(|error| failed(vendor, &error))?.iter().map(Row::of).collect();
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

fn failed(vendor: &str, error: &FetchError) -> CommandError {
    let what = format!("{vendor}'s files were not got, and nothing was written");
    match error {
        FetchError::Refused { place, refusal } => CommandError::refused(Exit::Failed, what, refusal).because(place),
        // Writing itself may have failed at the second file.
        FetchError::Io { .. } => {
            let what = format!("{vendor}'s files cannot be written");
            CommandError::local(ErrorCode::Known(error.reason()), what).because(error.to_string())
        }
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
