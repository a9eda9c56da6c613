//! Data of real hardware: reports, certificates, event logs, from public projects. They lie in `shared/vectors`, beside the checkout.

use std::fs;
use std::path::{Path, PathBuf};

use crate::skip;

/// Where this file of the vectors is. `None`, and a [`skip`], where it is not.
#[track_caller]
pub fn vector_path(name: &str) -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.map(|directory| directory.join("shared/vectors").join(name)).find(|path| path.exists());
    if found.is_none() {
        skip(format_args!("shared/vectors/{name} is not beside the checkout"));
    }
    found
}

/// What it holds.
///
/// # Panics
/// If it is there and cannot be read.
#[track_caller]
pub fn vector(name: &str) -> Option<Vec<u8>> {
    vector_path(name).map(|path| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
