//! `latchkey secret new`, `latchkey secret rotate`.

use std::path::Path;

use latchkey_keys::MasterSecret;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, Failure> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| Failure::usage("FILE is missing"))?;
    MasterSecret::random()?.write_new(path)?;
    let shown = path.display();
    let human = format!(
        "master secret written to {shown}\nKeep a copy in a safe place: no disk of its cluster can be recovered without it.\n"
    );
    output.result(&json!({"file": shown.to_string(), "version": 1}), &human)
}

/// Adds a version to a master secret's file.
pub(crate) fn rotate(arguments: &Arguments, output: &Output) -> Result<Exit, Failure> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| Failure::usage("FILE is missing"))?;
    let before = MasterSecret::load(path)?;
    let earlier: Vec<u32> = before.versions().map(latchkey_keys::KeyVersion::number).collect();
    let rotated = before.rotated()?;
    rotated.replace(path)?;
    let (shown, version) = (path.display(), rotated.current());
    let human = format!(
        "version {version} of the master secret is current in {shown}\n\
         Give the new file to the key service, or to the join service that has one, and keep a copy: the disks of nodes that join\n\
         from now on need it. Disks from before keep their version.\n"
    );
    output.result(&json!({"file": shown.to_string(), "version": version, "earlier_versions": earlier}), &human)
}
