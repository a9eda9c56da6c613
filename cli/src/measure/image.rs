//! `latchkey measure image`: what machines will measure when they boot an image.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::parse::Component;
use latchkey_measurements::disk_image::{BootImage, ImageError, Influence};
use latchkey_measurements::predict::{Machine, MachineType, PredictError, Prediction, StubVersion, Uki, Whole};
use serde_json::{Map, Value, json};

use super::launch::{self, Asked};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Table, Tone, pairs};

pub(crate) fn image(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = Path::new(arguments.operand(0).unwrap_or_default());
    let image = open(path)?;
    let asked = launch::asked(arguments)?;
    let named = machines(arguments)?;
    // What a direct boot measures is the whole file: not hashed for those who do not boot so.
    let direct = asked.as_ref().is_some_and(Asked::direct_boot) || named.iter().flatten().any(Machine::boots_by_hashes);
    let whole = if direct { Whole::Hashed } else { Whole::Left };
    let measured = Uki::measure_beside(&image.uki, whole, || asked.map(Asked::measure).transpose());
    let (uki, file, asked) = measured.map_err(|error| unpredictable(path, &error))?;
    let asked = asked?;
    let launches = asked.map(|asked| launch::launches(&asked, file)).transpose()?;
    let machines = match named {
        Some(named) => named,
        None => vec![usual(uki.stub())?],
    };
    let warnings = warnings(&image, output);
    let mut told = pairs(&[
        ("boot stub", format!("systemd-stub {}", uki.stub().number())),
        ("command line", uki.command_line().to_owned()),
        ("Authenticode", uki.authenticode().to_string()),
    ]);
    let mut predicted = Vec::new();
    for machine in &machines {
        let prediction = uki.predict(machine).map_err(|error| unpredictable(path, &error))?;
        let launches = machine.launches(file).map_err(|error| unpredictable(path, &error))?;
        told.push_str(&human(&prediction));
        let mut json = as_json(&prediction);
        if !launches.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(
                told,
                "\nas an SEV-SNP guest of QEMU of the type {}\n{}",
                machine.name,
                launch::table(&launches)
            );
            json["snp_launch"] = json!(launches);
        }
        predicted.push(json);
    }
    let mut json = json!({
        "image": {
            "from_disk": image.from_disk,
            "stub": uki.stub().number(),
            "command_line": uki.command_line(),
            "authenticode": uki.authenticode(),
        },
        "other_files": warnings,
        "machines": predicted,
    });
    if let Some(launches) = launches {
        told.push_str(&launches.text);
        json["snp_launch"] = launches.json;
    }
    output.result(&json, &told)
}

/// What is booted from the file; refused when something beside it would be measured too.
pub(super) fn open(path: &Path) -> Result<BootImage, CommandError> {
    files::must_be_a_file(path, "an image is read at several places")?;
    let image = BootImage::open(path).map_err(|error| {
        let failure = unusable(path, CommandCode::ImageUnusable).because(error.to_string());
        match error {
            ImageError::Qcow2 => {
                let path = path.display();
                failure.fix(format!("qemu-img convert -O raw {path} {path}.raw"))
            }
            _ => failure.fix("give a raw disk image made by `latchkey image build`, or its unified kernel image"),
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

pub(super) fn unpredictable(path: &Path, error: &PredictError) -> CommandError {
    unusable(path, CommandCode::ImageUnpredictable).because(error.to_string())
}

fn unusable(path: &Path, code: CommandCode) -> CommandError {
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

/// Says which other programs lie on the boot partition; all other files in JSON.
fn warnings(image: &BootImage, output: &Output) -> Value {
    let mut files = Map::new();
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
        files.insert(file.path.clone(), json!(what));
    }
    Value::Object(files)
}

fn human(prediction: &Prediction) -> String {
    let mut table = Table::new(&["PCR", "SHA-256", "WHAT IS MEASURED INTO IT"]);
    for (pcr, value) in prediction.pcrs() {
        let what = if value == latchkey_attestation::Digest::ZERO { "nothing" } else { Component::of(pcr).describe() };
        table.row([pcr.to_string(), value.to_string(), what.to_owned()]);
        if pcr == 11 {
            for (phase, value) in prediction.phases() {
                table.row([String::new(), value.to_string(), format!("after systemd's phase {phase}")]);
            }
        }
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, "\non {}\n{table}", prediction.machine);
    text
}

fn as_json(prediction: &Prediction) -> Value {
    let phases = prediction.phases().into_iter().map(|(phase, value)| json!({"phase": phase.path(), "pcr_11": value}));
    let events = prediction.events.iter().map(|event| {
        let data = event.data.as_ref().map(hex::encode);
        json!({
            "pcr": event.pcr, "type": event.kind.to_string(), "what": event.what, "digest": event.digest, "data": data,
        })
    });
    let pcrs: Map<_, _> = prediction.pcrs().into_iter().map(|(pcr, value)| (pcr.to_string(), json!(value))).collect();
    json!({
        "machine": prediction.machine,
        "pcrs": pcrs,
        "phases": phases.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
    })
}
