//! `latchkey reference add-firmware` and `remove-firmware`: which firmware is known.

use latchkey_attestation::reference::{Image, PlatformProfile, Source};
use latchkey_attestation::{Component, FirmwareChange, PcrSet, ReferenceValues};

use super::Revision;
use super::edit::{finish, operand, serial, unfit};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

/// The firmware of a boot that `latchkey record` wrote down comes in, as a further type of machine of the image that it ran.
pub(crate) fn add(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let revision = Revision::read(operand(arguments, 0, "BASE")?)?;
    let base = &revision.values;
    let recording = Revision::read(operand(arguments, 1, "RECORDED")?)?.values;
    let recorded = recorded(&recording)?;
    let name = arguments.text("machine")?.unwrap_or(recorded.name()).to_owned();
    let (image, machine) = runs(base, recorded)?;
    // An image that enforces its own values takes no firmware but what its own types of machines list.
    let enforces = FirmwareChange::known_by().iter().any(|pcr| machine.enforced().contains(pcr));
    let counts = |one: &&Image| !enforces || (one.name() == image.name() && one.version() == image.version());
    let mut listed = base.images().iter().filter(counts).flat_map(Image::machines);
    if let Some(machine) = listed.find(|machine| machine.firmware() == recorded.firmware()) {
        return Err(CommandError::usage(format!(
            "this firmware is known already, as {} of {}",
            machine.name(),
            base.name()
        )));
    }
    if image.machine(&name).is_some() {
        let what = format!("{} has values for a machine {name}", image.label());
        return Err(CommandError::usage(what).fix("give the recorded one another name, with --machine"));
    }
    let next = base.edited(serial(base, arguments)?, |images, _| {
        for one in images.iter_mut().filter(|one| one.name() == image.name() && one.version() == image.version()) {
            // Where a version stands in several parts, one of them lists the type of machine that is the recorded one's but for its firmware.
            if one.machines().iter().any(|of| of.name() == machine.name()) {
                let added = machine.with_firmware_of(recorded, &name);
                *one = one.clone().with_machines(one.machines().iter().cloned().chain([added]).collect());
            }
        }
    });
    let vouched =
        format!("{name} counts as known from here on: you vouch for the firmware of the boot that was recorded");
    output.say(Tone::Warning, "firmware", &vouched);
    finish(&next.map_err(unfit)?, revision, arguments, output)
}

/// A type of machine goes, and with it the firmware that it lists.
pub(crate) fn remove(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let revision = Revision::read(operand(arguments, 0, "BASE")?)?;
    let base = &revision.values;
    let name = arguments.operand_text(1)?;
    let lists = |machine: &PlatformProfile| machine.name() == name && machine.firmware().is_some();
    let all = || base.images().iter().flat_map(Image::machines).filter(|machine| machine.firmware().is_some());
    if !all().any(lists) {
        let failure = CommandError::usage(format!("no machine {name} of {} lists firmware", base.name()));
        let names: Vec<&str> = all().map(PlatformProfile::name).collect();
        return Err(failure
            .because(format!("these do: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })));
    }
    let also = arguments.texts("also")?;
    if let Some(missing) = also.iter().find(|name| !all().any(|machine| machine.name() == **name)) {
        return Err(CommandError::usage(format!("--also: no machine {missing} of {} lists firmware", base.name())));
    }
    let goes = |machine: &PlatformProfile| {
        machine.firmware().is_some() && (machine.name() == name || also.contains(&machine.name()))
    };
    let next = base.edited(serial(base, arguments)?, |images, _| {
        for image in images.iter_mut().filter(|image| image.machines().iter().any(goes)) {
            let others = image.machines().iter().filter(|machine| !goes(machine)).cloned().collect();
            *image = image.clone().with_machines(others);
        }
    });
    let next = next.map_err(unfit)?;
    let removed: Vec<_> = all().filter(|machine| goes(machine)).map(PlatformProfile::firmware).collect();
    let stays = |machine: &&PlatformProfile| removed.contains(&machine.firmware());
    let mut still = next.images().iter().flat_map(Image::machines).filter(|machine| machine.firmware().is_some());
    if let Some(other) = still.find(stays) {
        let what =
            format!("the firmware of {name} would stay known: {} of {} lists it, too", other.name(), base.name());
        return Err(CommandError::usage(what).fix(format!("let both go, with --also {}", other.name())));
    }
    output.say(Tone::Plain, "firmware", "another manifest of the policy may list it still: those are not looked at");
    finish(&next, revision, arguments, output)
}

/// The one type of machine of a recording, with its firmware.
fn recorded(recording: &ReferenceValues) -> Result<&PlatformProfile, CommandError> {
    let ([image], true) =
        (recording.images(), recording.images().iter().all(|image| image.source() == Source::Recorded))
    else {
        let failure = CommandError::usage("RECORDED is not the manifest of one boot");
        return Err(failure.fix("give what `latchkey record` wrote: one image whose source is `recorded`"));
    };
    let [machine] = image.machines() else {
        return Err(
            CommandError::usage("RECORDED has several types of machines").fix("give what `latchkey record` wrote")
        );
    };
    if machine.firmware().is_none() {
        let failure =
            CommandError::usage("RECORDED tells no firmware: PCR 0 or 2 is not in it, or nothing was measured there");
        return Err(failure.fix("record by a policy that has both in `pcrs.warn`, as `latchkey policy new` writes it"));
    }
    Ok(machine)
}

/// The image that the recorded boot ran, and the type of machine that it is but for its firmware: of several versions the newest.
fn runs<'a>(
    base: &'a ReferenceValues,
    recorded: &PlatformProfile,
) -> Result<(&'a Image, &'a PlatformProfile), CommandError> {
    let firmware = FirmwareChange::registers();
    let differing = |machine: &PlatformProfile| {
        let has = |pcr: &u8| {
            let value = |of: &PlatformProfile| of.pcrs().get(pcr).map(|reference| reference.value);
            value(machine) == value(recorded)
        };
        // What comes in are the values of the firmware that is known; of all others the type's own stay enforced.
        let enforced = machine.enforced().without(FirmwareChange::known_by());
        enforced.iter().filter(|pcr| !has(pcr)).fold(PcrSet::EMPTY, |set, pcr| set.with(pcr).unwrap_or(set))
    };
    let all = base.images().iter().flat_map(|image| image.machines().iter().map(move |machine| (image, machine)));
    let same = all
        .clone()
        .filter(|(_, machine)| differing(machine).is_empty() && !machine.enforced().without(firmware).is_empty());
    same.max_by_key(|(image, _)| image.version()).ok_or_else(|| {
        let failure = CommandError::usage(format!("the recorded boot is of no image of {}", base.name()));
        let closest = all.min_by_key(|(_, machine)| differing(machine).iter().count());
        let failure = closest.into_iter().fold(failure, |failure, (image, machine)| {
            let names: Vec<String> =
                differing(machine).iter().map(|pcr| format!("PCR {pcr} ({})", Component::of(pcr).describe())).collect();
            failure.because(format!("from {} on {} differ {}", image.label(), machine.name(), names.join(", ")))
        });
        failure.fix("record a machine while it waits with an image of this manifest")
    })
}
