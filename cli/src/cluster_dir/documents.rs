//! Whom the cluster of a directory admits.

use std::path::{Path, PathBuf};

use latchkey_attestation::AuthenticManifest;
use latchkey_cluster_store::Enrolment;
use latchkey_durable_file::Links;

use super::ClusterDir;
use crate::clock::now;
use crate::documents::{Documents, InstallOptions, PolicyFile, place};
use crate::error::CommandError;
use crate::files;
use crate::store_error::unusable;
use crate::trust::{self, Found, Trust};

/// As large as the reader of policies takes.
const MAX_POLICY: usize = 1024 * 1024;

/// A manifest's file, its bytes, and its signature's.
pub(crate) type ManifestFiles = (PathBuf, Vec<u8>, Option<Vec<u8>>);

impl ClusterDir {
    /// Every manifest as its files have it.
    pub(crate) fn manifests(&self) -> Result<Vec<ManifestFiles>, CommandError> {
        self.as_owner(|| {
            let policy = self.0.policy().map_err(unusable)?;
            let found = self.0.manifests(&policy).map_err(unusable)?;
            let files = found.into_iter().map(|(path, _)| {
                let (manifest, signature) = Trust::manifest_file(&path)?;
                Ok((path, manifest, signature))
            });
            files.collect()
        })
    }

    /// Puts policy, reference values and join rules there for the join service, where there are none yet.
    pub(crate) fn adopt(&self, trust: &Trust) -> Result<(), CommandError> {
        self.as_owner(|| {
            let mut writer = self.0.writer().map_err(unusable)?;
            self.0.check_revisions(&trust.references).map_err(unusable)?;
            for Found { name, manifest, signature } in &trust.manifests {
                let path = self.0.references_path().join(format!("{name}.json"));
                if !path.exists() && !self.path("reference.json").exists() {
                    self.0.make_references().map_err(unusable)?;
                    writer.put_manifest(&trust.policy, &path, manifest, signature.as_deref()).map_err(unusable)?;
                }
            }
            let policy = self.path("policy.json");
            if !policy.exists() {
                writer.write_policy(&trust.policy_file).map_err(unusable)?;
            }
            // A node depends on it soon: the join service must be able to use it.
            let references = self.0.policy().and_then(|policy| self.0.references(&policy)).map_err(unusable)?;
            writer.remember(&references, now()).map_err(unusable)?;
            if self.path("enrolment.json").exists() {
                return Ok(());
            }
            // Who trusts a vendor does not know whose machines will come; who pins TPMs has named them.
            let rules =
                if trust.policy.trusts_authority() { Enrolment::hold_all() } else { Enrolment::workers_and([]) };
            writer.write_enrolment(&rules).map_err(unusable)
        })
    }
}

impl Documents for ClusterDir {
    fn trust(&self) -> Result<Trust, CommandError> {
        self.as_owner(|| {
            let policy_file = files::read_regular(&self.path("policy.json"), MAX_POLICY, Links::Followed)?;
            let policy = self.0.policy().map_err(unusable)?;
            let references = self.0.references(&policy).map_err(unusable)?;
            self.0.remember(&references, now()).map_err(unusable)?;
            Ok(Trust::in_force(policy_file, policy, references))
        })
    }

    fn held_against(&self, trust: Trust) -> Result<Trust, CommandError> {
        self.as_owner(|| self.0.check_revisions(&trust.references).map_err(unusable))?;
        Ok(Trust { remembers: true, ..trust })
    }

    fn install(&self, path: &Path, options: InstallOptions) -> Result<(AuthenticManifest, String), CommandError> {
        // The operator's, who may have it where the directory's owner reads nothing.
        let (manifest, signature) = Trust::manifest_file(path)?;
        self.as_owner(|| {
            let policy = self.0.policy().map_err(unusable)?;
            let revision = trust::authentic(path, &policy, &manifest, signature.clone())?;
            // Another installation may be under way: what is looked at from here on stays until this one is remembered.
            let mut writer = self.0.writer().map_err(unusable)?;
            let in_force = self.0.manifests(&policy).map_err(unusable)?;
            let revisions = self.0.revisions().map_err(unusable)?;
            let placed = place(&policy, &revision, in_force, &revisions, options)?;
            let fresh = || self.0.references_path().join(format!("{}.json", revision.values().name()));
            let target = placed.before.unwrap_or_else(fresh);
            if options.replace_newer {
                // Before the file is there: stopped in between, the newer revision is still in force, and this can be done again.
                writer.go_back_to(&revision, now()).map_err(unusable)?;
            }
            self.0.make_references().map_err(unusable)?;
            writer.put_manifest(&policy, &target, &manifest, signature.as_deref()).map_err(unusable)?;
            writer.remember(&placed.references, now()).map_err(unusable)?;
            Ok((revision, target.display().to_string()))
        })
    }

    fn install_policy(&self, policy: &PolicyFile) -> Result<String, CommandError> {
        self.as_owner(|| {
            let mut writer = self.0.writer().map_err(unusable)?;
            self.0.references(&policy.policy).map_err(unusable)?;
            writer.write_policy(policy.text.as_bytes()).map_err(unusable)?;
            Ok(self.path("policy.json").display().to_string())
        })
    }
}
