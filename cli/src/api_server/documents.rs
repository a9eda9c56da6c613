//! Policy and manifests of a cluster that is kept in its API server.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use latchkey_attestation::AuthenticManifest;
use latchkey_cluster_store::object_documents::{
    go_back_in, manifests_in, path_of, policy_in, references_in, remember_in, revisions_in, signature_key,
};
use latchkey_cluster_store::objects::{COLLATERAL_MAP, NAMESPACE, POLICY_MAP, REFERENCES_MAP, REVISIONS_MAP};

use latchkey_collateral::Entries;

use super::{ApiServer, Maps as _, TRIES, others_first};
use crate::clock::now;
use crate::codes::CommandCode;
use crate::documents::{Documents, InstallOptions, PolicyFile, check_follow, place};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::store_error::unusable;
use crate::trust::{self, Trust};

/// The policy's key in its map.
const POLICY: &str = "policy.json";

impl ApiServer {
    async fn read_trust(&self) -> Result<Trust, CommandError> {
        let known = self.data(POLICY_MAP).await?;
        let policy = policy_in(&known).map_err(unusable)?;
        let revisions = revisions_in(&self.data(REVISIONS_MAP).await?).map_err(unusable)?;
        let references = references_in(&self.data(REFERENCES_MAP).await?, &policy, &revisions).map_err(unusable)?;
        if !revisions.has_all(&references) {
            self.change(REVISIONS_MAP, |data| remember_in(data, &references, now()).map_err(unusable)).await?;
        }
        let file = known.get(POLICY).cloned().unwrap_or_default().into_bytes();
        Ok(Trust::in_force(file, policy, references))
    }

    async fn hold_against(&self, trust: Trust) -> Result<Trust, CommandError> {
        let revisions = revisions_in(&self.data(REVISIONS_MAP).await?).map_err(unusable)?;
        check_follow(&revisions, &trust.references)?;
        Ok(Trust { remembers: true, ..trust })
    }

    /// What is looked at is of the revision of the manifests that is replaced, or later: who installs at the same time is heard of.
    async fn put_manifest(
        &self,
        path: &Path,
        options: InstallOptions,
    ) -> Result<(AuthenticManifest, String), CommandError> {
        let (manifest, signature) = Trust::manifest_file(path)?;
        for _ in 0..TRIES {
            let mut map = self.document(REFERENCES_MAP).await?;
            let policy = policy_in(&self.data(POLICY_MAP).await?).map_err(unusable)?;
            let revisions = revisions_in(&self.data(REVISIONS_MAP).await?).map_err(unusable)?;
            let revision = trust::authentic(path, &policy, &manifest, signature.clone())?;
            let in_force = manifests_in(&map.data, &policy, &revisions).map_err(unusable)?;
            let placed = place(&policy, &revision, in_force, &revisions, options)?;
            let key = placed.before.unwrap_or_else(|| format!("{}.json", revision.values().name()));
            map.data.insert(key.clone(), text(path, manifest.clone())?);
            match &signature {
                Some(signature) => drop(map.data.insert(signature_key(&key), text(path, signature.clone())?)),
                None => drop(map.data.remove(&signature_key(&key))),
            }
            if options.replace_newer {
                // Before the manifest is there: stopped in between, the newer revision is still in force, and this can be done again.
                let back = |data: &mut super::Data| {
                    go_back_in(data, &revision, now()).map_err(unusable)?;
                    Ok(true)
                };
                self.change(REVISIONS_MAP, back).await?;
            }
            if self.put_document(&map).await? {
                let remember = |data: &mut super::Data| remember_in(data, &placed.references, now()).map_err(unusable);
                self.change(REVISIONS_MAP, remember).await?;
                return Ok((revision, path_of(REFERENCES_MAP, &key).display().to_string()));
            }
        }
        Err(others_first(REFERENCES_MAP))
    }

    /// Puts all files of a collateral into one object, in the place of those of before: services read it whole or not at all. Where it is,
    /// and whether it is another one than was there.
    pub(crate) async fn put_collateral(&self, entries: &Entries) -> Result<(String, bool), CommandError> {
        let files: super::Data = entries.iter().map(|(key, content)| (key.clone(), BASE64.encode(content))).collect();
        for _ in 0..TRIES {
            let mut map = self.document(COLLATERAL_MAP).await?;
            refuse_lost_parts(&map.binary_data, &files)?;
            let written = !map.data.is_empty() || map.binary_data != files;
            map.data.clear();
            map.binary_data.clone_from(&files);
            if !written || self.put_document(&map).await? {
                return Ok((path_of(COLLATERAL_MAP, "").display().to_string(), written));
            }
        }
        Err(others_first(COLLATERAL_MAP))
    }

    async fn put_policy(&self, file: &PolicyFile) -> Result<String, CommandError> {
        let revisions = revisions_in(&self.data(REVISIONS_MAP).await?).map_err(unusable)?;
        references_in(&self.data(REFERENCES_MAP).await?, &file.policy, &revisions).map_err(unusable)?;
        for _ in 0..TRIES {
            let mut map = self.document(POLICY_MAP).await?;
            let before = map.data.insert(POLICY.to_owned(), file.text.clone());
            if before.as_ref() == Some(&file.text) || self.put_document(&map).await? {
                return Ok(path_of(POLICY_MAP, POLICY).display().to_string());
            }
        }
        Err(others_first(POLICY_MAP))
    }
}

/// What is gone by mistake would be missed when a machine is refused.
fn refuse_lost_parts(before: &super::Data, files: &super::Data) -> Result<(), CommandError> {
    let parts_of = |data: &super::Data| {
        data.keys().filter_map(|key| Some(key.split_once('.')?.0.to_owned())).collect::<BTreeSet<String>>()
    };
    let (before, now) = (parts_of(before), parts_of(files));
    let Some(lost) = before.difference(&now).next() else { return Ok(()) };
    let what = format!("the cluster's collateral has a part `{lost}`, and the directory has none");
    let delete = format!("kubectl delete configmap {COLLATERAL_MAP} -n {NAMESPACE}");
    Err(CommandError::usage(what)
        .fix(format!("have all parts in one directory; to do without this one, first: {delete}")))
}

impl Documents for ApiServer {
    fn trust(&self) -> Result<Trust, CommandError> {
        block_on(self.read_trust())
    }

    fn held_against(&self, trust: Trust) -> Result<Trust, CommandError> {
        block_on(self.hold_against(trust))
    }

    fn install(&self, path: &Path, options: InstallOptions) -> Result<(AuthenticManifest, String), CommandError> {
        block_on(self.put_manifest(path, options))
    }

    fn install_policy(&self, policy: &PolicyFile) -> Result<String, CommandError> {
        block_on(self.put_policy(policy))
    }
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, CommandError> {
    String::from_utf8(bytes).map_err(|_| {
        CommandError::new(Exit::Usage, CommandCode::FileMalformed, format!("{} is no text", path.display()))
    })
}
