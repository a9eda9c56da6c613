//! `latchkey reference install`: a revision takes its place in a cluster.

use std::path::Path;

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::{Authority, ManifestName};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::documents::InstallOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::output::{Output, Report, Style, Tone};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("MANIFEST is missing"))?;
    let store = machines::open(arguments)?;
    let options = InstallOptions {
        replace_newer: arguments.has("replace-newer"),
        forget_revocations: arguments.has("forget-revocations"),
    };
    let (revision, file) = store.install(path, options)?;
    super::warn_of_serial(revision.values(), output);
    let (name, serial, file) = (revision.values().name(), revision.values().serial(), file);
    output.say(Tone::Good, "installed", &format!("serial {serial} of {name} in {file}"));
    let (authority, values) = (revision.authority(), revision.values());
    output.report(&InstallReport { manifest: name, serial, file, authority, values })
}

/// A revision is in force.
#[derive(Serialize)]
struct InstallReport<'a> {
    manifest: &'a ManifestName,
    serial: u64,
    file: String,
    authority: &'a Authority,
    #[serde(skip)]
    values: &'a ReferenceValues,
}

impl Report for InstallReport<'_> {
    fn text(&self, _: Style) -> String {
        super::check::table(self.values)
    }
}
