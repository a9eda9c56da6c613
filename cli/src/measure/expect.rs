//! `latchkey measure log --expect`: a log beside reference values, or beside what an image should have measured.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::parse::{Component, PcrSet};
use latchkey_attestation::reference::PlatformProfile;
use latchkey_measurements::difference::{EventDifference, EventSummary, unexpected};
use latchkey_measurements::predict::{Machine, MachineType, Prediction};
use latchkey_measurements::{Bank, EventLog, Replay, manifest};
use serde_json::{Map, Value, json};

use super::image;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Tone, printable};

/// What was expected: text, its part of the JSON, and whether the log is that.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) json: Vec<(&'static str, Value)>,
    pub(super) as_expected: bool,
}

/// The log beside one of them.
struct Compared {
    text: String,
    json: Value,
    /// Whether the log is that of one machine type that was expected.
    as_expected: bool,
}

/// Everything about `--expect` and `--expect-image`.
pub(super) fn expectations(
    arguments: &Arguments,
    log: &EventLog<'_>,
    pcrs: PcrSet,
    output: &Output,
) -> Result<Report, CommandError> {
    let mut report = Report { text: String::new(), json: Vec::new(), as_expected: true };
    let given = (arguments.path("expect"), arguments.path("expect-image"));
    if given == (None, None) {
        return Ok(report);
    }
    if !log.banks().any(|bank| bank == Bank::Sha256) {
        return Err(CommandError::usage("the log has no digests of the bank sha256, which is what is expected"));
    }
    let (reference, image) = match given {
        (Some(path), None) if !is_json(path)? => (None, Some(path)),
        given => given,
    };
    if let Some(path) = reference {
        let compared = against_reference(&read_reference(path)?, log, pcrs, output)?;
        report.text.push_str(&compared.text);
        report.as_expected &= compared.as_expected;
        report.json.push(("expected", compared.json));
    }
    if let Some(path) = image {
        let compared = against_image(path, arguments, log, pcrs, output)?;
        report.text.push_str(&compared.text);
        report.as_expected &= compared.as_expected;
        report.json.push(("predicted", compared.json));
    }
    Ok(report)
}

/// Images begin with other bytes.
fn is_json(path: &Path) -> Result<bool, CommandError> {
    // An image is read at several places; of standard input there is only the beginning.
    if files::is_standard_input(path) {
        return Ok(true);
    }
    let begins = files::read_beginning(path, 64)?;
    Ok(begins.trim_ascii_start().starts_with(b"{"))
}

/// Who wrote the manifest is not asked: nothing is admitted here.
fn read_reference(path: &Path) -> Result<ReferenceValues, CommandError> {
    let json = files::read(path, ReferenceValues::MAX_JSON)?;
    let what = || format!("{} cannot be used", path.display());
    ReferenceValues::from_json(&json).map_err(|refusal| CommandError::refused(Exit::Usage, what(), &refusal))
}

/// For each image and machine of the manifest: the registers that differ; for the closest, the first event of each.
fn against_reference(
    reference: &ReferenceValues,
    log: &EventLog<'_>,
    pcrs: PcrSet,
    output: &Output,
) -> Result<Compared, CommandError> {
    let mut as_expected = false;
    let replay = Replay::of(log, Bank::Sha256);
    let replayed = |pcr| replay.as_ref().and_then(|replay| replay.value(pcr)).map_or("0".repeat(64), hex::encode);
    let (mut text, mut values) = (String::new(), Vec::new());
    let mut closest: Option<(usize, PcrSet, String, &PlatformProfile)> = None;
    for image in reference.images() {
        for machine in image.machines() {
            let differing =
                manifest::differing(machine, log).map_err(|error| CommandError::usage(error.to_string()))?;
            let differing = differing.intersection(pcrs);
            as_expected |= differing.is_empty();
            let name = format!("{} on {}", image.label(), machine.name());
            let verdict = if differing.is_empty() {
                output.paint(Tone::Good, &format!("the log is that of {name}"))
            } else {
                output.paint(Tone::Bad, &format!("the log is not that of {name}; what differs:"))
            };
            let _ = writeln!(text, "\n{verdict}");
            let mut registers = Map::new();
            for pcr in differing.iter() {
                let Some(expected) = machine.pcrs().get(&pcr) else { continue };
                let (component, got) = (Component::of(pcr).describe(), replayed(pcr));
                let _ = writeln!(text, "  PCR {pcr} ({component}): expected {}, got {got}", expected.value);
                registers
                    .insert(pcr.to_string(), json!({"expected": expected.value, "got": got, "rule": expected.rule}));
            }
            if closest.as_ref().is_none_or(|(_, fewest, ..)| differing.iter().count() < fewest.iter().count()) {
                closest = Some((values.len(), differing, name, machine));
            }
            values.push(json!({
                "image": image.name(), "version": image.version().to_string(), "machine": machine.name(),
                "matches": differing.is_empty(), "differing": registers,
            }));
        }
    }
    if let Some((at, differing, name, machine)) = closest.filter(|(_, differing, ..)| !differing.is_empty()) {
        let (told, json) = first_events(&name, machine, log, differing, output);
        text.push_str(&told);
        if let Some(closest) = values.get_mut(at) {
            closest["events"] = json;
        }
    }
    Ok(Compared { text, json: json!(values), as_expected })
}

/// The first event of each of these registers that is not as the manifest tells.
fn first_events(
    name: &str,
    machine: &PlatformProfile,
    log: &EventLog<'_>,
    differing: PcrSet,
    output: &Output,
) -> (String, Value) {
    let differences = unexpected(machine.events(), log, differing.intersection(machine.explained()));
    let told = if machine.events().is_empty() {
        format!("{name}: the manifest does not tell the events behind its values")
    } else {
        format!("the first event of each PCR that is not as {name} has it:")
    };
    let mut text = format!("\n{}\n", output.paint(Tone::Bad, &told));
    for difference in &differences {
        let _ = writeln!(text, "  {}", printable(&difference.to_string()));
    }
    (text, json!(differences))
}

/// The first event of each register that is not as the image would have it.
fn against_image(
    path: &Path,
    arguments: &Arguments,
    log: &EventLog<'_>,
    pcrs: PcrSet,
    output: &Output,
) -> Result<Compared, CommandError> {
    let image = image::open(path)?;
    let uki = image::measure(path, &image)?;
    let machines = match image::machines(arguments)? {
        Some(machines) => machines,
        None => without_secure_boot(),
    };
    let predictions = machines.iter().map(|machine| uki.predict(machine));
    let predictions: Vec<Prediction> =
        predictions.collect::<Result<_, _>>().map_err(|error| image::unpredictable(path, &error))?;
    let compared = predictions.into_iter().map(|prediction| (prediction.differences(log, pcrs), prediction));
    let Some((differences, prediction)) = compared.min_by_key(|(differences, _)| misfit(differences)) else {
        return Err(CommandError::usage("--machine: no type of machine is given"));
    };
    let name = format!("{} on {}", path.display(), prediction.machine);
    let mut text = String::new();
    if differences.is_empty() {
        let told = output.paint(Tone::Good, &format!("every event is as predicted from {name}"));
        let _ = writeln!(text, "\n{told}");
    } else {
        let told = format!("the first event of each PCR that is not as predicted from {name}:");
        let _ = writeln!(text, "\n{}", output.paint(Tone::Bad, &told));
        for difference in &differences {
            let _ = writeln!(text, "  {}\n{}", printable(&difference.to_string()), digests(difference));
        }
    }
    let as_expected = differences.is_empty();
    Ok(Compared { text, json: json!({"machine": prediction.machine, "differences": differences}), as_expected })
}

/// What a program that is another one, and is described by the same words, differs by.
fn digests(difference: &EventDifference) -> String {
    let of = |event: &Option<EventSummary>| event.as_ref().map_or("none", |event| event.digest.as_str()).to_owned();
    format!("      expected digest  {}\n      got digest       {}", of(&difference.expected), of(&difference.got))
}

/// How little a type of machine fits: by registers, then by events of another kind, as when firmware came another way.
fn misfit(differences: &[EventDifference]) -> (usize, usize) {
    let kind = |event: &Option<EventSummary>| event.as_ref().map(|event| event.kind.clone());
    let foreign = differences.iter().filter(|difference| kind(&difference.expected) != kind(&difference.got));
    (differences.len(), foreign.count())
}

/// All known types of machines whose state needs no file.
fn without_secure_boot() -> Vec<Machine> {
    let known = MachineType::BUILTIN.iter().filter_map(|name| MachineType::builtin(name));
    known.filter_map(|machine| machine.with_variables(None).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_boot_program_of_the_same_name_is_told_apart_by_its_digest() {
        let event = |digest: &str| EventSummary {
            index: 7,
            kind: "EV_EFI_BOOT_SERVICES_APPLICATION".to_owned(),
            description: "EFI application".to_owned(),
            digest: digest.repeat(32),
        };
        let (expected, got) = (Some(event("ab")), None);
        let told = digests(&EventDifference { pcr: 4, component: Component::of(4), expected, got });
        assert!(told.contains(&"ab".repeat(32)) && told.ends_with("got digest       none"), "{told}");
    }
}
