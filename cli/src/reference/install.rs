//! `latchkey reference install`: an edition takes its place in a cluster's folder.

use std::path::Path;

use serde_json::json;

use crate::failure::Failure;
use crate::folder::{Place, Wishes};
use crate::output::{Output, Tone};
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| Failure::usage("MANIFEST is missing"))?;
    let place = Place::open(arguments.required_path("cluster")?)?;
    let wishes = Wishes {
        replace_newer: arguments.has("replace-newer"),
        forget_revocations: arguments.has("forget-revocations"),
    };
    let (edition, file) = place.install(path, wishes)?;
    super::warn_of_serial(edition.values(), output);
    let (name, serial, file) = (edition.values().name(), edition.values().serial(), file.display().to_string());
    output.say(Tone::Good, "installed", &format!("serial {serial} of {name} in {file}"));
    let json = json!({"manifest": name, "serial": serial, "file": file, "authority": edition.authority()});
    output.result(&json, &super::check::table(edition.values()));
    Ok(())
}
