//! `latchkey measure image`: what machines will measure when they boot an image.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::parse::{Component, Digest};
use latchkey_attestation::reference::{SnpLaunch, TdxRegisters};
use latchkey_measurements::disk_image::{BootImage, ImageError, Influence};
use latchkey_measurements::predict::{
    Machine, MachineType, Phase, PredictError, PredictedEvent, Prediction, RtmrEvent, StubVersion, TdxImage,
    TdxPrediction, Uki, Whole,
};
use serde::Serialize;

use super::launch::{self, Asked, LaunchReport};
use crate::arguments::Arguments;
use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Report, Style, Table, Tone, pairs};

pub(crate) fn image(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = Path::new(arguments.operand(0).unwrap_or_default());
    let image = open(path)?;
    let asked = launch::asked(arguments)?;
    let named = machines(arguments)?;
    // What a direct boot measures is the whole file: not hashed for those who do not boot so.
    let direct = asked.as_ref().is_some_and(Asked::direct_boot) || named.iter().flatten().any(Machine::boots_by_hashes);
    let whole = if direct { Whole::Hashed } else { Whole::Left };
    let measured = Uki::measure_beside(&image.uki, whole, asked.map(|asked| || asked.measure()));
    let (uki, file, asked) = measured.map_err(|error| unpredictable(path, &error))?;
    let asked = asked.transpose()?;
    let launches = asked.map(|asked| launch::launches(&asked, file)).transpose()?;
    let machines = match named {
        Some(named) => named,
        None => vec![usual(uki.stub())?],
    };
    let other_files = other_files(&image, output);
    let confidential = machines.iter().any(|machine| machine.tdx.is_some());
    let confidential = confidential.then(|| measure_for_tdx(path, &image)).transpose()?;
    let mut predicted = Vec::new();
    for machine in &machines {
        let unpredictable = |error| unpredictable(path, &error);
        let prediction = uki.predict(machine).map_err(unpredictable)?;
        let snp_launch = machine.launches(file).map_err(unpredictable)?;
        let tdx = confidential.as_ref().map(|image| image.predict(machine)).transpose().map_err(unpredictable)?;
        predicted.push(MachineRow {
            tdx: tdx.flatten().as_ref().map(TdxRow::of),
            ..MachineRow::of(&prediction, snp_launch)
        });
    }
    output.report(&ImageReport {
        image: ImageFacts {
            from_disk: image.from_disk,
            stub: uki.stub().number(),
            command_line: uki.command_line(),
            authenticode: uki.authenticode(),
        },
        other_files,
        machines: predicted,
        snp_launch: launches,
    })
}

/// What machines will measure when they boot an image.
#[derive(Serialize)]
struct ImageReport<'a> {
    image: ImageFacts<'a>,
    /// Every other file of the boot partition, and what it could do.
    other_files: BTreeMap<String, Option<&'static str>>,
    machines: Vec<MachineRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snp_launch: Option<LaunchReport>,
}

/// The image itself.
#[derive(Serialize)]
struct ImageFacts<'a> {
    from_disk: bool,
    stub: u16,
    command_line: &'a str,
    authenticode: Digest,
}

/// What one type of machine will measure.
#[derive(Serialize)]
struct MachineRow {
    machine: String,
    pcrs: BTreeMap<u8, Digest>,
    phases: Vec<PhaseRow>,
    events: Vec<EventRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    snp_launch: Vec<SnpLaunch>,
    /// Of the TDX guests of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    tdx: Option<TdxRow>,
}

/// What a TDX guest will have in its registers.
#[derive(Serialize)]
struct TdxRow {
    #[serde(flatten)]
    registers: TdxRegisters,
    /// Of RTMR 1 only those that are the image's.
    events: Vec<RtmrEventRow>,
}

/// One measurement into a register of a TDX guest.
#[derive(Serialize)]
struct RtmrEventRow {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    event: RtmrEvent,
}

impl TdxRow {
    fn of(prediction: &TdxPrediction) -> Self {
        let row = |event: &RtmrEvent| RtmrEventRow { kind: event.kind.to_string(), event: event.clone() };
        Self { registers: prediction.registers(), events: prediction.events.iter().map(row).collect() }
    }

    fn text(&self, machine: &str) -> String {
        let TdxRegisters { kernel_measures, rtmrs } = &self.registers;
        let mut table = Table::new(&["REGISTER", "SHA-384"]);
        for (register, value) in rtmrs {
            table.row([register.to_string(), value.to_string()]);
        }
        format!(
            "\nas a TDX guest of the type {machine}, whose kernel measures by `{}`\n{table}",
            kernel_measures.as_str()
        )
    }
}

/// PCR 11 after one of systemd's phases.
#[derive(Serialize)]
struct PhaseRow {
    phase: String,
    pcr_11: Digest,
    #[serde(skip)]
    name: String,
}

/// One measurement.
#[derive(Serialize)]
struct EventRow {
    pcr: u8,
    #[serde(rename = "type")]
    kind: String,
    what: String,
    digest: Digest,
    /// Hexadecimal; absent where only a digest of something larger is known.
    data: Option<String>,
}

impl MachineRow {
    fn of(prediction: &Prediction, snp_launch: Vec<SnpLaunch>) -> Self {
        let phase =
            |(phase, pcr_11): (Phase, Digest)| PhaseRow { phase: phase.path(), pcr_11, name: phase.to_string() };
        let event = |event: &PredictedEvent| EventRow {
            pcr: event.pcr,
            kind: event.kind.to_string(),
            what: event.what.clone(),
            digest: event.digest,
            data: event.data.as_ref().map(hex::encode),
        };
        Self {
            machine: prediction.machine.clone(),
            pcrs: prediction.pcrs(),
            phases: prediction.phases().into_iter().map(phase).collect(),
            events: prediction.events.iter().map(event).collect(),
            snp_launch,
            tdx: None,
        }
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["PCR", "SHA-256", "WHAT IS MEASURED INTO IT"]);
        for (&pcr, &value) in &self.pcrs {
            let what = if value == Digest::ZERO { "nothing" } else { Component::of(pcr).describe() };
            table.row([pcr.to_string(), value.to_string(), what.to_owned()]);
            if pcr == 11 {
                for PhaseRow { pcr_11, name, .. } in &self.phases {
                    table.row([String::new(), pcr_11.to_string(), format!("after systemd's phase {name}")]);
                }
            }
        }
        let mut text = format!("\non {}\n{table}", self.machine);
        if !self.snp_launch.is_empty() {
            let launches = launch::table(&self.snp_launch);
            // Writing to a string cannot fail.
            let _ = write!(text, "\nas an SEV-SNP guest of QEMU of the type {}\n{launches}", self.machine);
        }
        text.extend(self.tdx.iter().map(|tdx| tdx.text(&self.machine)));
        text
    }
}

impl Report for ImageReport<'_> {
    fn text(&self, _: Style) -> String {
        let mut text = pairs(&[
            ("boot stub", format!("systemd-stub {}", self.image.stub)),
            ("command line", self.image.command_line.to_owned()),
            ("Authenticode", self.image.authenticode.to_string()),
        ]);
        text.extend(self.machines.iter().map(MachineRow::text));
        text.extend(self.snp_launch.iter().map(LaunchReport::text));
        text
    }
}

/// What is booted from the file; refused when something beside it would be measured too.
pub(super) fn open(path: &Path) -> Result<BootImage, CommandError> {
    files::must_be_a_file(path, "an image is read at several places")?;
    let image = BootImage::open(path).map_err(|error| {
        let failure = unusable(path, error.code()).because(error.to_string());
        match error {
            ImageError::Qcow2 => {
                let path = path.display();
                failure.fix(format!("qemu-img convert -O raw {path} {path}.raw"))
            }
            _ => failure,
        }
    })?;
    let measured: Vec<_> = image.measured().collect();
    if measured.is_empty() {
        return Ok(image);
    }
    let failure = unusable(path, CommandCode::ImageNotAlone);
    let failure = measured.into_iter().fold(failure, |failure, file| match file.influence {
        Influence::Measured(what) => failure.because(format!("the boot partition has {}: {what}", file.path)),
        Influence::Bootable(_) | Influence::None => failure,
    });
    Err(failure.fix("remove these files from the boot partition: nodes with them are refused"))
}

pub(super) fn measure(path: &Path, image: &BootImage) -> Result<Uki, CommandError> {
    Uki::measure(&image.uki).map_err(|error| unpredictable(path, &error))
}

/// The same for TDX guests: another way through the file, with SHA-384.
pub(super) fn measure_for_tdx(path: &Path, image: &BootImage) -> Result<TdxImage, CommandError> {
    TdxImage::measure(&image.uki).map_err(|error| unpredictable(path, &error))
}

pub(super) fn unpredictable(path: &Path, error: &PredictError) -> CommandError {
    unusable(path, error.code()).because(error.to_string())
}

fn unusable(path: &Path, code: impl Into<ErrorCode>) -> CommandError {
    CommandError::new(Exit::Usage, code, format!("nothing is predicted for {}", path.display()))
}

/// The types of machines of `--machine`; `None` without the flag.
pub(super) fn machines(arguments: &Arguments) -> Result<Option<Vec<Machine>>, CommandError> {
    let named = arguments.texts("machine")?;
    let machines = named.into_iter().map(machine).collect::<Result<Vec<_>, _>>()?;
    Ok((!machines.is_empty()).then_some(machines))
}

fn machine(name: &str) -> Result<Machine, CommandError> {
    if let Some(machine) = MachineType::builtin(name) {
        return load(&machine, Path::new("/"));
    }
    let path = Path::new(name);
    if !path.exists() {
        let known = MachineType::BUILTIN.join(", ");
        return Err(CommandError::usage(format!("--machine {name}: neither a file nor one of {known}")));
    }
    let json = files::read(path, MachineType::MAX_JSON)?;
    let machine = MachineType::from_json(&json).map_err(|error| {
        CommandError::new(Exit::Usage, CommandCode::MachineMalformed, format!("{name} cannot be used"))
            .because(error.to_string())
    })?;
    load(&machine, path.parent().unwrap_or(Path::new("")))
}

fn load(machine: &MachineType, directory: &Path) -> Result<Machine, CommandError> {
    machine.load(directory).map_err(|error| {
        let what = format!("the type of machine {} cannot be used", machine.name);
        CommandError::new(Exit::Usage, CommandCode::MachineUnusable, what).because(error.to_string())
    })
}

/// The firmware of the suite that the boot stub is of, from a disk, without Secure Boot.
fn usual(stub: StubVersion) -> Result<Machine, CommandError> {
    machine(MachineType::of_suite(stub))
}

/// All other files of the boot partition; says which of them are programs.
fn other_files(image: &BootImage, output: &Output) -> BTreeMap<String, Option<&'static str>> {
    let mut files = BTreeMap::new();
    for file in &image.others {
        let what = match file.influence {
            Influence::Bootable(what) | Influence::Measured(what) => Some(what),
            Influence::None => None,
        };
        if let Some(what) = what {
            output.say(
                Tone::Bad,
                "warning",
                &format!("the boot partition has {}: {what}, which could be booted instead", file.path),
            );
        }
        files.insert(file.path.clone(), what);
    }
    files
}
