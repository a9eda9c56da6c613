//! `latchkey policy install`: a policy takes the place of the one in force.

use std::path::Path;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::documents::PolicyFile;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines;
use crate::output::{Output, Report, Style, Tone, pairs};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("POLICY is missing"))?;
    let policy = PolicyFile::read(path)?;
    let file = machines::open(arguments)?.install_policy(&policy)?;
    output.say(Tone::Good, "installed", &file);
    output.report(&InstallReport { file, trusts_authority: policy.policy.trusts_authority() })
}

/// A policy is in force.
#[derive(Serialize)]
struct InstallReport {
    file: String,
    /// Whether it trusts more than TPMs that it names.
    trusts_authority: bool,
}

impl Report for InstallReport {
    fn text(&self, _: Style) -> String {
        let trusted = if self.trusts_authority { "TPMs certified by an authority" } else { "the TPMs that it names" };
        pairs(&[("policy", self.file.clone()), ("trusts", trusted.to_owned())])
    }
}
