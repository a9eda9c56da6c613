//! A chart's archive as it was hashed: what helm reads are these bytes, whatever becomes of the file that they came from.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use latchkey_kubernetes::Sha256;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;

/// An archive of a chart: helm takes 20 MiB, unpacked.
const MAX_ARCHIVE: usize = 32 << 20;

/// A copy in memory that nobody can change, this command included.
#[derive(Debug)]
pub(super) struct Archive(File);

impl Archive {
    /// Reads the file, once; its hash, and the copy.
    pub(super) fn read(path: &Path) -> Result<(Sha256, Self), CommandError> {
        let bytes = files::read(path, MAX_ARCHIVE)?;
        let failed = |error: std::io::Error| {
            CommandError::local(CommandCode::FileUnreadable, format!("{} cannot be held in memory", path.display()))
                .because(error.to_string())
        };
        let sealed = || {
            let mut copy = File::from(memfd_create("chart", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
            copy.write_all(&bytes)?;
            fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
            Ok(copy)
        };
        Ok((Sha256::of(&bytes), Self(sealed().map_err(failed)?)))
    }

    /// Where helm finds it, as long as this value is there.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}
