//! What can go wrong while an initramfs is built.

use std::fmt;
use std::path::PathBuf;

use crate::cpio::CpioError;
use crate::modules::ModuleError;

/// Why no initramfs was built.
#[derive(Debug)]
pub enum InitramfsError {
    /// The archive cannot hold an entry.
    Cpio(CpioError),
    /// A kernel module is missing, damaged or contradicts another.
    Module(ModuleError),
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The compressor failed.
    Compress(std::io::Error),
}

impl fmt::Display for InitramfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpio(error) => error.fmt(f),
            Self::Module(error) => error.fmt(f),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Compress(source) => write!(f, "zstd: {source}"),
        }
    }
}

impl std::error::Error for InitramfsError {}

impl From<CpioError> for InitramfsError {
    fn from(error: CpioError) -> Self {
        Self::Cpio(error)
    }
}

impl From<ModuleError> for InitramfsError {
    fn from(error: ModuleError) -> Self {
        Self::Module(error)
    }
}
