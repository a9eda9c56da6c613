//! That a cluster is to be registered, kept on its first node's state disk.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cluster::{StepCode, StepError, files};
use crate::handover::SecretText;

/// Beside what kubeadm writes, which lies on the state disk.
pub(crate) const PATH: &str = "/etc/kubernetes/latchkey/enrolment.json";
/// Far more than it has.
const MAX_BYTES: usize = 4096;

/// The file, version 1.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    version: u8,
    /// Lower-case UUID of the state disk.
    pub(super) disk_uuid: String,
    /// RFC 1123 subdomain.
    pub(super) node_name: String,
    /// 32 bytes, or none.
    pub(super) invitation: SecretText,
}

impl Wanted {
    pub(crate) fn new(disk_uuid: &str, node_name: &str, invitation: &SecretText) -> Self {
        let invitation = SecretText::new(invitation.expose());
        Self { version: 1, disk_uuid: disk_uuid.into(), node_name: node_name.into(), invitation }
    }

    /// Writes it, durable when this returns.
    pub(crate) fn keep(&self, path: &Path) -> Result<(), StepError> {
        let malformed = |error: serde_json::Error| StepError::new(StepCode::File, error.to_string());
        let mut text = zeroize::Zeroizing::new(Vec::with_capacity(MAX_BYTES));
        serde_json::to_writer(&mut *text, self).map_err(malformed)?;
        files::write(path, &text)
    }

    /// None: nothing is to be registered, or it is already.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, StepError> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(files::error(path, &error)),
            Ok(_) => {}
        }
        let text = files::read(path, MAX_BYTES)?;
        let wanted: Self = serde_json::from_slice(text.expose())
            .map_err(|error| StepError::new(StepCode::File, format!("{}: {error}", path.display())))?;
        if wanted.version == 1 {
            return Ok(Some(wanted));
        }
        let message = format!("{} has version {}, expected 1", path.display(), wanted.version);
        Err(StepError::new(StepCode::File, message))
    }

    /// Removes it.
    pub(super) fn done(path: &Path) -> Result<(), StepError> {
        files::remove(path)
    }
}
