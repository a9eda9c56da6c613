//! `latchkey reference add` and `latchkey reference revoke`: the next revision of a manifest, and how it is written.

use std::path::Path;
use std::time::Duration;

use latchkey_attestation::reference::{Image, Revocation, parse_rfc3339};
use latchkey_attestation::{ImageVersion, ReferenceValues, Refusal};
use serde::Serialize;

use super::{Revision, publish};
use crate::arguments::Arguments;
use crate::clock::now;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Tone};

/// An upgrade: the images of another manifest come in, and the older ones get an end.
pub(crate) fn add(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let revision = Revision::read(operand(arguments, 0, "BASE")?)?;
    let (base, new) = (&revision.values, &Revision::read(operand(arguments, 1, "NEW")?)?.values);
    let from = format_rfc3339(arguments, "not-before")?;
    let until = format_rfc3339(arguments, "not-after")?;
    let old_until = format_rfc3339(arguments, "old-until")?;
    let added = |image: &Image| image.clone().valid_between(from.or(image.not_before()), until.or(image.not_after()));
    // Older than every version of the same image that comes in.
    let is_older = |image: &Image| {
        let mut versions = new.images().iter().filter(|new| new.name() == image.name()).map(Image::version).peekable();
        versions.peek().is_some() && versions.all(|version| image.version() < version)
    };
    if old_until.is_some() && !base.images().iter().any(is_older) {
        let failure = CommandError::usage("--old-until: no image of BASE is older than those of NEW");
        return Err(failure.fix("leave it out, or revoke the version that must end"));
    }
    let next = base.edited(serial(base, arguments)?, |images, revoked| {
        for image in images.iter_mut().filter(|image| is_older(image)) {
            // An end that is nearer already stays.
            let end = match (image.not_after(), old_until) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            *image = image.clone().valid_between(image.not_before(), end);
        }
        images.extend(new.images().iter().map(added));
        // What NEW revokes stays revoked.
        let known = |one: &&Revocation| base.revocation(&one.name, one.version).is_some();
        revoked.extend(new.revoked().iter().filter(|one| !known(one)).cloned());
    });
    let next = next.map_err(unfit)?;
    for image in new.images().iter().filter(|image| is_downgrade(base, image)) {
        let why = format!("{} is older than a version that is there: should it run again?", image.label());
        output.say(Tone::Warning, "downgrade", &why);
    }
    finish(&next, revision, arguments, output)
}

/// Whether a newer version of the image is in `base`, and this one is not.
fn is_downgrade(base: &ReferenceValues, new: &Image) -> bool {
    base.images().iter().any(|image| image.name() == new.name() && image.version() > new.version())
}

/// A version that must not run any more.
pub(crate) fn revoke(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let revision = Revision::read(operand(arguments, 0, "BASE")?)?;
    let base = &revision.values;
    let name = arguments.operand_text(1)?.to_owned();
    let version = arguments.operand_text(2)?;
    let version: ImageVersion = version.parse().map_err(|error| CommandError::usage(format!("{version}: {error}")))?;
    if !base.images().iter().any(|image| image.name() == name && image.version() == version) {
        let known: Vec<String> = base.images().iter().map(Image::label).collect();
        let failure = CommandError::usage(format!("{} has no image {name} {version}", base.name()));
        return Err(failure.because(format!("it has {}", known.join(", "))));
    }
    let why = arguments.required_text("why")?.to_owned();
    let next = base.edited(serial(base, arguments)?, |_, revoked| revoked.push(Revocation { name, version, why }));
    finish(&next.map_err(unfit)?, revision, arguments, output)
}

pub(super) fn finish(
    next: &ReferenceValues,
    base: Revision,
    arguments: &Arguments,
    output: &Output,
) -> Result<Exit, CommandError> {
    publish(next, base, arguments, output)?;
    let file = arguments.required_path("out")?.display().to_string();
    output.report(&RevisionReport { file, signed: arguments.has("key"), manifest: next })
}

/// A revision was written.
#[derive(Serialize)]
struct RevisionReport<'a> {
    file: String,
    signed: bool,
    manifest: &'a ReferenceValues,
}

impl Report for RevisionReport<'_> {
    fn text(&self, _: Style) -> String {
        super::check::table(self.manifest)
    }
}

/// `--serial`, or the next one.
pub(super) fn serial(base: &ReferenceValues, arguments: &Arguments) -> Result<u64, CommandError> {
    Ok(arguments.value("serial")?.unwrap_or_else(|| base.serial().saturating_add(1)))
}

pub(super) fn operand<'a>(arguments: &'a Arguments, index: usize, name: &str) -> Result<&'a Path, CommandError> {
    arguments.operand(index).map(Path::new).ok_or_else(|| CommandError::usage(format!("{name} is missing")))
}

/// A point in time: `2026-01-31T23:59:59Z`, or from now on `14d`, `36h`.
fn format_rfc3339(arguments: &Arguments, flag: &str) -> Result<Option<u64>, CommandError> {
    let Some(text) = arguments.text(flag)? else { return Ok(None) };
    let found = parse_rfc3339(text).or_else(|| now().checked_add(duration(text)?.as_secs()));
    found.map(Some).ok_or_else(|| {
        CommandError::usage(format!(
            "--{flag} {text}: expected a time such as 2026-01-31T23:59:59Z, or 14d or 36h from now"
        ))
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u32>().ok()).flatten()?;
    Some(Duration::from_secs(u64::from(number) * unit))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn unfit(refusal: Refusal) -> CommandError {
    CommandError::refused(Exit::Usage, "such a manifest cannot be", &refusal)
}
