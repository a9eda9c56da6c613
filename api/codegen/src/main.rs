//! Writes `api/src/generated/latchkey.v1.rs` anew. Takes no arguments; run it from anywhere in the workspace.

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = latchkey_api_codegen::generate(&api.join("proto"))?;
    fs::write(api.join("src/generated").join(format!("{}.rs", latchkey_api_codegen::PACKAGE)), source)?;
    Ok(())
}
