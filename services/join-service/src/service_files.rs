//! What join and key service of a control plane read, where they run inside the cluster: given to another control plane alone.

use crate::decision::ControlPlaneTurn;
use latchkey_api::control_plane::file;
use latchkey_api::service_files::{MASTER_SECRET, MAX_FILE, NAMES, ServiceFiles};
use latchkey_api::v1::ControlPlaneFile;
use latchkey_cluster_store::ClusterFile;
use latchkey_keys::{KeyError, MasterSecret, SecretVec, read_private_file};
use std::path::Path;

/// The master secret and this service's own key are among them. There is one way out of here.
#[derive(Debug)]
pub(crate) struct InsideFiles(ServiceFiles);

impl InsideFiles {
    /// Reads them from a directory. Nobody but the service's user and root may read any of them.
    pub(crate) fn read(directory: &Path) -> Result<Self, String> {
        let one = |name: &&str| {
            let path = directory.join(name);
            let data =
                read_private_file(&path, MAX_FILE).map_err(|error| format!("{error}; {}", error.code().remedy()))?;
            Ok(file(name, data.expose().to_vec()))
        };
        let files = NAMES.iter().map(one).collect::<Result<Vec<_>, String>>()?;
        ServiceFiles::new(files).map(Self).map_err(|error| format!("{}: {error}", directory.display()))
    }

    /// Whether the master secret among them is the cluster's.
    pub(crate) fn check(&self, cluster: &ClusterFile) -> Result<(), KeyError> {
        let found = self.0.iter().find(|(name, _)| *name == MASTER_SECRET);
        let text = SecretVec::from_slice(found.map(|(_, data)| data).unwrap_or_default());
        cluster.measurement_secret(&MasterSecret::from_text(&text, Path::new(MASTER_SECRET))?).map(drop)
    }

    /// For the ticket of the control plane whose turn it is.
    pub(crate) fn for_ticket(&self, _: &ControlPlaneTurn) -> Vec<ControlPlaneFile> {
        self.0.to_messages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn each_file_has_to_be_there_and_private() {
        let directory = tempfile::tempdir().unwrap();
        for name in NAMES {
            assert!(InsideFiles::read(directory.path()).unwrap_err().contains(name));
            let path = directory.path().join(name);
            fs::write(&path, "hush").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let files = InsideFiles::read(directory.path()).unwrap();
        assert!(!format!("{files:?}").contains("hush"));
        fs::set_permissions(directory.path().join("master.json"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(InsideFiles::read(directory.path()).unwrap_err().contains("master.json"));
    }
}
