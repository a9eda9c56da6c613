//! `latchkey secret new`.

use std::path::Path;

use latchkey_keys::MasterSecret;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;
use crate::spec::Arguments;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| Failure::usage("FILE is missing"))?;
    MasterSecret::random()?.write_new(path)?;
    let shown = path.display();
    let human = format!(
        "master secret written to {shown}\nKeep a copy in a safe place: no disk of its cluster can be recovered without it.\n"
    );
    output.result(&json!({"file": shown.to_string(), "version": 1}), &human);
    Ok(())
}
