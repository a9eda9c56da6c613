//! `latchkey measure log` of a confidential machine's event log (CCEL): measurement registers in the place of PCRs.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::reference::{KernelMeasures, LaunchDigest, Rtmr, TdxRegisters};
use latchkey_measurements::Bank;
use latchkey_measurements::cc::CcLog;
use latchkey_measurements::predict::{Machine, RtmrDifference, TdxGuestType};
use latchkey_measurements::source::{Source, SourceError};
use serde::Serialize;

use super::report::{LogReport, digests};
use super::{expect, image};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Style, Tone, printable};

pub(super) fn log(path: &Path, source: &Source, arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    if source.quoted().is_some() {
        let why = format!(
            "{} is evidence with a TPM's quote, which says nothing about the registers of a confidential machine's log (CCEL)",
            path.display()
        );
        return Err(CommandError::usage(why).fix("give the log alone, as a file"));
    }
    for flag in ["pcr", "firmware-log", "tpm", "reference-log"] {
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
    let predicted_rtmrs = expected_image(arguments)?.map(|path| against_image(path, arguments, &log)).transpose()?;
    output.report(&LogReport { predicted_rtmrs, ..LogReport::of(report) })
}

/// The image of `--expect-image`, or of `--expect`, which for other logs may be a manifest, too.
fn expected_image(arguments: &Arguments) -> Result<Option<&Path>, CommandError> {
    match (arguments.path("expect"), arguments.path("expect-image")) {
        (None, image) => Ok(image),
        (Some(image), None) if !expect::is_json(image)? => Ok(Some(image)),
        _ => {
            let why = "--expect with a manifest is for a TPM's log, and this one is a confidential machine's (CCEL)";
            Err(CommandError::usage(why).fix("give the image itself: --expect-image IMAGE"))
        }
    }
}

/// A log beside what a TDX guest of the type of machine that fits best should have measured of an image.
#[derive(Serialize)]
pub(super) struct RtmrComparison {
    machine: String,
    #[serde(flatten)]
    registers: TdxRegisters,
    /// Whether the log replays to these registers.
    replays: bool,
    /// The first event of each register that is not as predicted.
    differences: Vec<RtmrDifference>,
    #[serde(skip)]
    image: String,
}

fn against_image(path: &Path, arguments: &Arguments, log: &CcLog<'_>) -> Result<RtmrComparison, CommandError> {
    let image = image::open(path)?;
    let measured = image::measure_for_tdx(path, &image)?;
    let machines = image::machines(arguments)?;
    let predictions = match &machines {
        Some(machines) => machines.iter().map(|machine| measured.predict(machine)).collect::<Result<Vec<_>, _>>(),
        // Of those that this image cannot run on as predicted there is always one more.
        None => Ok(known_guests().iter().filter_map(|machine| measured.predict(machine).ok()).collect()),
    };
    let predictions = predictions.map_err(|error| image::unpredictable(path, &error))?.into_iter().flatten();
    let compared = predictions.map(|prediction| (prediction.differences(log), prediction));
    let Some((differences, prediction)) = compared.min_by_key(|(differences, _)| differences.len()) else {
        let why = "no type of machine has TDX guests in which this image would measure something";
        return Err(CommandError::usage(why).fix("describe one with `tdx`, see `latchkey measure image --help`"));
    };
    let registers = prediction.registers();
    let replayed = log.replay();
    let replays =
        |(register, value): (&Rtmr, &LaunchDigest)| replayed.values().get(*register as usize) == Some(&value.0);
    Ok(RtmrComparison {
        machine: prediction.machine,
        replays: registers.rtmrs.iter().all(replays),
        registers,
        differences,
        image: path.display().to_string(),
    })
}

/// The known types of machines without Secure Boot as TDX guests, whose kernel measures in one way or the other.
fn known_guests() -> Vec<Machine> {
    let guests = |machine: Machine| {
        let of = |kernel_measures| Machine {
            tdx: Some(TdxGuestType { kernel_measures, separator: None }),
            ..machine.clone()
        };
        [of(KernelMeasures::Tpm), of(KernelMeasures::Cc)]
    };
    expect::without_secure_boot().into_iter().flat_map(guests).collect()
}

impl RtmrComparison {
    pub(super) fn matches(&self) -> bool {
        self.differences.is_empty() && self.replays
    }

    pub(super) fn text(&self, style: Style) -> String {
        let kernel = self.registers.kernel_measures.as_str();
        let name = format!("{} in a TDX guest of {}, whose kernel measures by `{kernel}`", self.image, self.machine);
        if self.matches() {
            let line = format!("RTMR 2, and the programs in RTMR 1, are as predicted from {name}");
            return format!("\n{}\n", style.paint(Tone::Good, &line));
        }
        let heading = format!("the first event of each register that is not as predicted from {name}:");
        let mut text = format!("\n{}\n", style.paint(Tone::Bad, &heading));
        for difference in &self.differences {
            let digests = digests(difference.expected.as_ref(), difference.got.as_ref());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {}\n{digests}", printable(&difference.to_string()));
        }
        text
    }
}
