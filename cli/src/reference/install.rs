//! `latchkey reference install`: a revision takes its place in a cluster's directory.

use std::path::Path;

use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster_dir::{ClusterDir, InstallOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Tone};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("MANIFEST is missing"))?;
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let options = InstallOptions {
        replace_newer: arguments.has("replace-newer"),
        forget_revocations: arguments.has("forget-revocations"),
    };
    let (revision, file) = directory.install(path, options)?;
    super::warn_of_serial(revision.values(), output);
    let (name, serial, file) = (revision.values().name(), revision.values().serial(), file.display().to_string());
    output.say(Tone::Good, "installed", &format!("serial {serial} of {name} in {file}"));
    let json = json!({"manifest": name, "serial": serial, "file": file, "authority": revision.authority()});
    output.result(&json, &super::check::table(revision.values()))
}
