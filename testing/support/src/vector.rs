//! Data of real hardware: reports, certificates, event logs, from public projects. They lie in `shared/vectors`, beside the checkout.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};

/// Where this file of the vectors is; `None` where they are not.
pub fn vector_path(name: &str) -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.map(|directory| directory.join("shared/vectors").join(name)).find(|path| path.exists());
    if found.is_none() {
        // No skip: they are no part of the project, and a change passes without. Said past the test harness, as a skip is.
        let said = format!("not tried: shared/vectors/{name} is not beside the checkout\n");
        let _ = stderr().write_all(said.as_bytes());
    }
    found
}

/// What it holds.
///
/// # Panics
/// If it is there and cannot be read.
pub fn vector(name: &str) -> Option<Vec<u8>> {
    vector_path(name).map(|path| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
