//! `latchkey measure log --expect`: a log beside reference values, or beside what an image should have measured.

use std::path::Path;

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::parse::PcrSet;
use latchkey_measurements::difference::{EventDifference, EventSummary, unexpected};
use latchkey_measurements::predict::{Machine, MachineType, Prediction};
use latchkey_measurements::{Bank, EventLog, Replay, manifest};

use super::image;
use super::report::{DifferingRegister, ManifestComparison, PredictionComparison};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;

/// Everything about `--expect` and `--expect-image`.
pub(super) fn expectations(
    arguments: &Arguments,
    log: &EventLog<'_>,
    pcrs: PcrSet,
) -> Result<(Option<Vec<ManifestComparison>>, Option<PredictionComparison>), CommandError> {
    let given = (arguments.path("expect"), arguments.path("expect-image"));
    if given == (None, None) {
        return Ok((None, None));
    }
    if !log.banks().any(|bank| bank == Bank::Sha256) {
        return Err(CommandError::usage("the log has no digests of the bank sha256, which is what is expected"));
    }
    let (reference, image) = match given {
        (Some(path), None) if !is_json(path)? => (None, Some(path)),
        given => given,
    };
    let expected = reference.map(|path| against_reference(&read_reference(path)?, log, pcrs));
    let predicted = image.map(|path| against_image(path, arguments, log, pcrs));
    Ok((expected.transpose()?, predicted.transpose()?))
}

/// Images begin with other bytes.
pub(super) fn is_json(path: &Path) -> Result<bool, CommandError> {
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
) -> Result<Vec<ManifestComparison>, CommandError> {
    let replay = Replay::of(log, Bank::Sha256);
    let replayed = |pcr| replay.as_ref().and_then(|replay| replay.value(pcr)).map_or("0".repeat(64), hex::encode);
    let mut compared = Vec::new();
    for image in reference.images() {
        for machine in image.machines() {
            let differing =
                manifest::differing(machine, log).map_err(|error| CommandError::usage(error.to_string()))?;
            let differing = differing.intersection(pcrs);
            let register = |pcr| {
                let reference = machine.pcrs().get(&pcr)?;
                let (expected, got, rule) = (reference.value, replayed(pcr), reference.rule);
                Some((pcr, DifferingRegister { expected, got, rule }))
            };
            let comparison = ManifestComparison {
                image: image.name().to_owned(),
                version: image.version(),
                machine: machine.name().to_owned(),
                matches: differing.is_empty(),
                differing: differing.iter().filter_map(register).collect(),
                events: None,
                explained: !machine.events().is_empty(),
            };
            compared.push((differing, machine, comparison));
        }
    }
    if let Some((differing, machine, closest)) =
        compared.iter_mut().min_by_key(|(differing, ..)| differing.iter().count())
        && !differing.is_empty()
    {
        closest.events = Some(unexpected(machine.events(), log, differing.intersection(machine.explained())));
    }
    Ok(compared.into_iter().map(|(_, _, comparison)| comparison).collect())
}

/// The first event of each register that is not as the image would have it.
fn against_image(
    path: &Path,
    arguments: &Arguments,
    log: &EventLog<'_>,
    pcrs: PcrSet,
) -> Result<PredictionComparison, CommandError> {
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
    Ok(PredictionComparison { machine: prediction.machine, differences, image: path.display().to_string() })
}

/// How little a type of machine fits: by registers, then by events of another kind, as when firmware came another way.
fn misfit(differences: &[EventDifference]) -> (usize, usize) {
    let kind = |event: &Option<EventSummary>| event.as_ref().map(|event| event.kind.clone());
    let foreign = differences.iter().filter(|difference| kind(&difference.expected) != kind(&difference.got));
    (differences.len(), foreign.count())
}

/// All known types of machines whose state needs no file.
pub(super) fn without_secure_boot() -> Vec<Machine> {
    let known = MachineType::BUILTIN.iter().filter_map(|name| MachineType::builtin(name));
    known.filter_map(|machine| machine.with_variables(None).ok()).collect()
}
