//! What the first machine of a cluster is sent.

use latchkey_api::v1::{ClusterSettings, ControlPlaneFiles, InitRequest, SecretsKey};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{DiskRelease, ReleaseCode};
use latchkey_keys::Uuid;

use super::Drive;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::init::authorities;
use crate::init::job::Store;
use crate::recover::NodeKeys;

impl Drive<'_> {
    /// The keys of the machine and disk that the journal names, written there before: it is the record of a cluster that has
    /// none yet.
    pub(super) fn keys(&self, ek: EkDigest, disk: Uuid) -> Result<NodeKeys, CommandError> {
        if self.journal.stage.machine() != Some((ek, disk)) {
            let what = format!("the disk {disk} is not the one that this init made");
            let failure = CommandError::new(Exit::Attestation, ReleaseCode::DiskNotOnRecord, what);
            return Err(failure.fix(ReleaseCode::DiskNotOnRecord.remedy()));
        }
        let version = self.journal.key_version;
        let (master, release) = (&self.job.master, DiskRelease::on_operators_word(disk, version));
        NodeKeys::derive(master, &release, master.measurement_secret(version)?)
    }

    pub(super) fn request(&self, ek: EkDigest, disk: Uuid) -> Result<InitRequest, CommandError> {
        let keys = self.keys(ek, disk)?;
        let version = self.journal.key_version;
        let mut secrets_key = SecretsKey::default();
        secrets_key.key = self.job.master.secrets_at_rest(version)?.expose().to_vec();
        secrets_key.version = version.number();
        let shared = match self.job.store {
            Store::Kubernetes => Some(authorities::of(&self.job.directory)?),
            Store::Directory => None,
        };
        let service_files = match (&self.job.inside, &shared) {
            (Some(inside), Some(shared)) => inside.files(shared)?.to_messages(),
            _ => Vec::new(),
        };
        Ok(InitRequest {
            cluster_name: self.job.name.clone(),
            disk_uuid: disk.to_string(),
            state_disk_key: keys.state_disk.expose().to_vec(),
            measurement_secret: keys.measurement.expose().to_vec(),
            measurement_salt: self.journal.salt()?.to_vec(),
            invitation: self.job.invitation.as_ref().map(|token| token.expose().to_vec()).unwrap_or_default(),
            settings: Some(ClusterSettings {
                secrets_key: Some(secrets_key),
                service_files,
                ..self.job.settings.clone()
            }),
            control_plane_files: shared.map(|files| ControlPlaneFiles { files: files.to_messages() }),
        })
    }
}
