//! A chart's archive as it was hashed: what helm reads are these bytes, whatever becomes of the file that they came from.

use std::path::{Path, PathBuf};

use latchkey_kubernetes::Sha256;

use crate::error::CommandError;
use crate::files;
use crate::sealed::SealedCopy;

/// An archive of a chart: helm takes 20 MiB, unpacked.
const MAX_ARCHIVE: usize = 32 << 20;

/// A copy in memory that nobody can change, this command included.
#[derive(Debug)]
pub(crate) struct Archive(SealedCopy);

impl Archive {
    /// Reads the file, once; its hash, and the copy.
    pub(super) fn read(path: &Path) -> Result<(Sha256, Self), CommandError> {
        let bytes = files::read(path, MAX_ARCHIVE)?;
        Ok((Sha256::of(&bytes), Self::of(&bytes, path)?))
    }

    /// Of these bytes; errors name the file.
    pub(crate) fn of(bytes: &[u8], path: &Path) -> Result<Self, CommandError> {
        SealedCopy::of("chart", bytes, path).map(Self)
    }

    /// Where helm finds it, as long as this value is there.
    pub(super) fn path(&self) -> PathBuf {
        self.0.path()
    }
}
