//! What join and key service of a control plane read: written for root alone, onto the encrypted state disk and nowhere else.
//!
//! The services start when stage 2 is done: their units are ordered after it, and wait for these files.

use std::os::linux::fs::MetadataExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use latchkey_api::service_files::ServiceFiles;
use latchkey_api::v1::ControlPlaneFile;

use super::kubeadm::Kubeadm;
use super::{Member, StepCode, StepError, files};
use crate::lifecycle::NodeRole;

impl Kubeadm {
    /// Keeps them, if there are any. `refused` is whose fault it is if they are not what services read.
    pub(super) fn keep_services(
        &self,
        member: &Member,
        sent: &[ControlPlaneFile],
        refused: StepCode,
    ) -> Result<(), StepError> {
        let sent = ServiceFiles::if_any(sent)
            .map_err(|error| StepError::new(refused, format!("the services' files are not complete: {error}")))?;
        let Some(sent) = sent else { return Ok(()) };
        if member.role == NodeRole::Worker {
            return Err(StepError::new(refused, "a worker is sent the services' files"));
        }
        let directory = &self.services;
        let not_kept = |why: String| {
            let message = format!("{} is not on the encrypted state disk: {why}", directory.display());
            StepError::new(StepCode::ServicesNotKept, message)
        };
        match (self.is_kept_on)(directory, &member.disk) {
            Ok(true) => {}
            Ok(false) => return Err(not_kept(format!("it is of another file system than {}", member.disk))),
            Err(error) => return Err(not_kept(error.to_string())),
        }
        for (name, data) in sent.iter() {
            files::write(&directory.join(name), data)?;
        }
        Ok(())
    }
}

/// Whether the file system of `directory` is the one on the block device `disk`.
pub(super) fn is_kept_on(directory: &Path, disk: &str) -> std::io::Result<bool> {
    let (directory, disk) = (std::fs::metadata(directory)?, std::fs::metadata(disk)?);
    Ok(disk.file_type().is_block_device() && directory.st_dev() == disk.st_rdev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_another_file_system_and_a_disk_that_is_none_are_told() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_kept_on(directory.path(), "/dev/null").unwrap());
        assert!(!is_kept_on(Path::new("/proc"), "/proc/self/exe").unwrap());
        assert!(is_kept_on(&directory.path().join("missing"), "/dev/null").is_err());
        assert!(is_kept_on(directory.path(), "/dev/mapper/missing").is_err());
    }
}
