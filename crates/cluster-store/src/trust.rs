//! Whom to admit: the policy, the reference manifests, and which revisions of these were accepted.

use crate::atomic::{self, Existing};
use crate::error::{ContentError, StoreError};
use crate::pair;
use crate::revisions::Revisions;
use crate::store::{ClusterStore, MAX_CONFIG, POLICY, REFERENCE, REVISIONS, optional};
use crate::writer::Writer;
use latchkey_attestation::{AuthenticManifest, ManifestFile, Policy, ReferenceValues, References, Refusal};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Reference manifests.
pub(crate) const MAX_MANIFESTS: usize = 64;
/// How long remembering waits for another program that writes.
const REMEMBER_PATIENCE: Duration = Duration::from_secs(5);

impl ClusterStore {
    /// The attestation policy.
    ///
    /// # Errors
    /// [`StoreError`], also when there is none.
    pub fn policy(&self) -> Result<Policy, StoreError> {
        let path = self.path().join(POLICY);
        let policy = Policy::from_json(&atomic::read(&path, MAX_CONFIG)?);
        policy.map_err(|refusal| StoreError::malformed(&path)(refusal.into()))
    }

    /// All reference manifests, each signed as the policy demands and none older than what was accepted before, and all that
    /// the policy names. Whoever decides by them must [`Self::remember`] them first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn references(&self, policy: &Policy) -> Result<References, StoreError> {
        let found = self.manifests(policy)?.into_iter().map(|(_, manifest)| manifest).collect();
        let fault = |refusal: Refusal| StoreError::malformed(&self.path().join(POLICY))(refusal.into());
        References::new(policy, found).map_err(fault)
    }

    /// The same manifests with their files, before they are held against the policy together.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn manifests(&self, policy: &Policy) -> Result<Vec<(PathBuf, AuthenticManifest)>, StoreError> {
        let revisions = self.revisions()?;
        let mut found = Vec::new();
        for path in self.manifest_paths()? {
            let judge = |file: ManifestFile| {
                let manifest = file.under(policy)?;
                revisions.check_follows(&manifest).map(|()| manifest)
            };
            match pair::read(&path, judge)? {
                Some(manifest) => found.push((path, manifest)),
                None if path.ends_with(REFERENCE) => {}
                None => return Err(StoreError::io("read", &path)(std::io::ErrorKind::NotFound.into())),
            }
        }
        Ok(found)
    }

    /// Remembers these revisions, wherever they come from, so that no older one is accepted later; durable when this returns.
    /// `now` is in seconds since the Unix epoch. Waits some seconds for a program that writes: whoever follows looks for denials, too.
    ///
    /// # Errors
    /// [`StoreError`]: `reference-rolled-back` and `reference-serial-reused` among them, if another program has accepted a
    /// newer revision meanwhile; that the directory is locked by one that does not come to its end.
    pub fn remember(&self, references: &References, now: u64) -> Result<(), StoreError> {
        // Whoever only reads the directory need not be able to write to it.
        if self.revisions()?.has_all(references) {
            return Ok(());
        }
        self.writer_within(REMEMBER_PATIENCE)?.remember(references, now)
    }

    /// Whether none of these manifests, wherever they come from, is older than what was accepted here before.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn check_revisions(&self, references: &References) -> Result<(), StoreError> {
        let revisions = self.revisions()?;
        let mut manifests = references.iter();
        manifests
            .try_for_each(|manifest| revisions.check_follows(manifest))
            .map_err(|refusal| StoreError::malformed(&self.path().join(REVISIONS))(refusal.into()))
    }

    /// Which revisions were accepted here.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn revisions(&self) -> Result<Revisions, StoreError> {
        let path = self.path().join(REVISIONS);
        let Some(json) = optional(atomic::read(&path, MAX_CONFIG))? else { return Ok(Revisions::none()) };
        Revisions::parse(&json).map_err(StoreError::malformed(&path))
    }

    /// Writes a policy that was checked; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_policy(&self, json: &str) -> Result<(), StoreError> {
        self.writer()?.write_policy(json.as_bytes())
    }

    /// Writes reference values as `reference.json`; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_reference(&self, values: &ReferenceValues) -> Result<(), StoreError> {
        self.writer()?.write_reference(values)
    }

    pub(crate) fn manifest_paths(&self) -> Result<Vec<PathBuf>, StoreError> {
        let directory = self.references_path();
        let mut paths = vec![self.path().join(REFERENCE)];
        match fs::read_dir(&directory) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(StoreError::io("list", &directory))?.path();
                    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                    if path.extension().is_some_and(|extension| extension == "json") && !hidden {
                        paths.push(path);
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("list", &directory)(error)),
        }
        if paths.len() > MAX_MANIFESTS {
            let fault = ContentError::Rule(format!("more than {MAX_MANIFESTS} reference manifests"));
            return Err(StoreError::malformed(&directory)(fault));
        }
        paths.sort();
        Ok(paths)
    }
}

/// Two programs that accept at once must not forget for each other, nor one of them put a file in force that the other has
/// outlived: who looks at what was accepted and acts on it holds this meanwhile.
impl Writer<'_> {
    /// [`ClusterStore::remember`], for who has the turn already.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remember(&mut self, references: &References, now: u64) -> Result<(), StoreError> {
        let mut revisions = self.directory().revisions()?;
        let mut newer = false;
        for manifest in references.iter() {
            newer |= revisions.accept(manifest, now).map_err(StoreError::malformed(&self.revisions_path()))?;
        }
        if newer { self.write_revisions(&revisions) } else { Ok(()) }
    }

    /// Remembers this revision in the place of a newer one of its name, which is forgotten: the way back from a revision that
    /// was signed by mistake, such as one with the largest serial there is. Durable when this returns. For an operator who
    /// asks for it, never for a service.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn go_back_to(&mut self, manifest: &AuthenticManifest, now: u64) -> Result<(), StoreError> {
        let mut revisions = self.directory().revisions()?;
        revisions.replace(manifest, now).map_err(StoreError::malformed(&self.revisions_path()))?;
        self.write_revisions(&revisions)
    }

    /// Writes a policy that was checked; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_policy(&mut self, json: &[u8]) -> Result<(), StoreError> {
        let directory = self.directory().path();
        let checked = Policy::from_json(json);
        checked.map_err(|refusal| StoreError::malformed(&directory.join(POLICY))(refusal.into()))?;
        atomic::write(directory, POLICY, json, Existing::Replace)
    }

    /// Writes reference values as `reference.json`; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_reference(&mut self, values: &ReferenceValues) -> Result<(), StoreError> {
        atomic::write(self.directory().path(), REFERENCE, values.to_json().as_bytes(), Existing::Replace)
    }

    fn revisions_path(&self) -> PathBuf {
        self.directory().path().join(REVISIONS)
    }

    fn write_revisions(&mut self, revisions: &Revisions) -> Result<(), StoreError> {
        atomic::write(self.directory().path(), REVISIONS, revisions.to_json().as_bytes(), Existing::Replace)
    }
}
