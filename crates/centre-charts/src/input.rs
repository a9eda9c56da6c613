//! A file or directory that somebody else made.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::chart::ChartFiles;
use crate::flux::FluxSet;

/// The most bytes of a file.
const MAX_FILE: u64 = 8 << 20;

/// What somebody else made, looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What the file or directory is called.
    pub name: String,
    /// SHA-256 of the file's bytes, or over the paths and contents of a directory's files, each with its length before it; in
    /// hexadecimal.
    pub sha256: String,
    /// What it is.
    pub content: Content,
}

/// What an input is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Flux's own manifests.
    Flux(FluxSet),
    /// The chart of Sealed Secrets.
    SealedSecrets(ChartFiles),
}

/// Why an input is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It cannot be read.
    #[error("{path} cannot be read: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, std::io::Error),
    /// It is larger than anything that is imported.
    #[error("{path} has more than {MAX_FILE} bytes", path = .0.display())]
    TooLarge(PathBuf),
    /// It is something else.
    #[error(
        "{path} is neither Flux's manifests (install.yaml) nor the chart of Sealed Secrets (a .tgz, or a directory with Chart.yaml)",
        path = .0.display()
    )]
    Unknown(PathBuf),
    /// It is no set of Flux's manifests.
    #[error("{path} is no complete set of Flux's manifests: {why}", path = .0.display(), why = .1)]
    Flux(PathBuf, String),
    /// It is no chart of Sealed Secrets.
    #[error("{path} is no chart of Sealed Secrets: {why}", path = .0.display(), why = .1)]
    Chart(PathBuf, String),
}

impl Input {
    /// Reads and looks into a file or directory.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let unreadable = |error| InputError::Unreadable(path.to_path_buf(), error);
        let chart = |why: String| InputError::Chart(path.to_path_buf(), why);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if fs::metadata(path).map_err(unreadable)?.is_dir() {
            let files = ChartFiles::of_directory(path).map_err(chart)?;
            return Ok(Self { name, sha256: files.sha256(), content: Content::SealedSecrets(files) });
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(InputError::TooLarge(path.to_path_buf()));
        }
        let sha256 = hex::encode(Sha256::digest(&bytes));
        let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
        let content = if is("tgz") || is("gz") {
            Content::SealedSecrets(ChartFiles::of_archive(&bytes).map_err(chart)?)
        } else if is("yaml") || is("yml") {
            let text =
                String::from_utf8(bytes).map_err(|_| InputError::Flux(path.to_path_buf(), "it is no UTF-8".into()))?;
            Content::Flux(FluxSet::read(text).map_err(|why| InputError::Flux(path.to_path_buf(), why))?)
        } else {
            return Err(InputError::Unknown(path.to_path_buf()));
        };
        Ok(Self { name, sha256, content })
    }
}
