//! `latchkey reference install`: a revision takes its place in a cluster's directory.

use std::path::Path;

use serde_json::json;

use crate::cluster_dir::{ClusterDir, InstallOptions};
use crate::failure::{Exit, Failure};
use crate::output::{Output, Tone};
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, Failure> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| Failure::usage("MANIFEST is missing"))?;
    let place = ClusterDir::open(arguments.required_path("cluster")?)?;
    let options = InstallOptions {
        replace_newer: arguments.has("replace-newer"),
        forget_revocations: arguments.has("forget-revocations"),
    };
    let (revision, file) = place.install(path, options)?;
    super::warn_of_serial(revision.values(), output);
    let (name, serial, file) = (revision.values().name(), revision.values().serial(), file.display().to_string());
    output.say(Tone::Good, "installed", &format!("serial {serial} of {name} in {file}"));
    let json = json!({"manifest": name, "serial": serial, "file": file, "authority": revision.authority()});
    output.result(&json, &super::check::table(revision.values()))
}
