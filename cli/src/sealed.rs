//! Bytes that a program is given to read: whatever becomes of the file that they came from, it finds what was looked at.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::codes::CommandCode;
use crate::error::CommandError;

/// A copy in memory that nobody can change, this command included.
#[derive(Debug)]
pub(crate) struct SealedCopy(File);

impl SealedCopy {
    /// `name` is for who looks at this process from outside; errors name the file that the bytes are of.
    pub(crate) fn of(name: &str, bytes: &[u8], file: &Path) -> Result<Self, CommandError> {
        Self::make(name, bytes).map_err(|error| {
            CommandError::local(CommandCode::FileUnreadable, format!("{} cannot be held in memory", file.display()))
                .because(error.to_string())
        })
    }

    fn make(name: &str, bytes: &[u8]) -> io::Result<Self> {
        let mut copy = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        // helm warns of a kubeconfig that others could read.
        copy.set_permissions(Permissions::from_mode(0o600))?;
        copy.write_all(bytes)?;
        fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self(copy))
    }

    /// Where a program of the same user finds it, as long as this value is there.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}
