//! Writes `crates/api/src/generated/` and `crates/sparkplug/src/generated/` anew. Takes no arguments; run it from anywhere in the workspace.

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let (proto, file) = (api.join("proto"), api.join("src/generated").join(latchkey_api_codegen::PACKAGE));
    fs::write(file.with_added_extension("rs"), latchkey_api_codegen::generate(&proto)?)?;
    fs::write(file.with_added_extension("binpb"), latchkey_api_codegen::descriptors(&proto)?)?;
    let sparkplug = api.join("../sparkplug");
    let file = sparkplug.join("src/generated").join(latchkey_api_codegen::SPARKPLUG).with_added_extension("rs");
    fs::write(file, latchkey_api_codegen::sparkplug(&sparkplug.join("proto"))?)?;
    Ok(())
}
