//! What can go wrong while an initramfs is built.

use std::path::PathBuf;

use crate::cpio::CpioError;
use crate::modules::ModuleError;

/// Why no initramfs was built.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// The archive cannot hold an entry.
    #[error(transparent)]
    Cpio(#[from] CpioError),
    /// A kernel module is missing, damaged or contradicts another.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The compressor failed.
    #[error("zstd: {0}")]
    Compress(std::io::Error),
}
