//! Whom to admit: the policy, the reference manifests, and which editions of these were accepted.

use crate::atomic::{self, Existing};
use crate::editions::Editions;
use crate::error::{FolderError, Malformed};
use crate::folder::{EDITIONS, Folder, MAX_CONFIG, POLICY, REFERENCE, optional};
use crate::pair;
use crate::writer::Writer;
use latchkey_attestation::{AuthenticManifest, ManifestFile, Policy, ReferenceValues, References, Refusal};
use std::fs;
use std::path::PathBuf;

/// Reference manifests.
const MAX_MANIFESTS: usize = 64;

impl Folder {
    /// The attestation policy.
    ///
    /// # Errors
    /// [`FolderError`], also when there is none.
    pub fn policy(&self) -> Result<Policy, FolderError> {
        let path = self.path().join(POLICY);
        let policy = Policy::from_json(&atomic::read(&path, MAX_CONFIG)?);
        policy.map_err(|refusal| FolderError::malformed(&path)(refusal.into()))
    }

    /// All reference manifests, each signed as the policy demands and none older than what was accepted before, and all that
    /// the policy names. Whoever decides by them must [`Self::remember`] them first.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn references(&self, policy: &Policy) -> Result<References, FolderError> {
        let found = self.manifests(policy)?.into_iter().map(|(_, manifest)| manifest).collect();
        let fault = |refusal: Refusal| FolderError::malformed(&self.path().join(POLICY))(refusal.into());
        References::new(policy, found).map_err(fault)
    }

    /// The same manifests with their files, before they are held against the policy together.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn manifests(&self, policy: &Policy) -> Result<Vec<(PathBuf, AuthenticManifest)>, FolderError> {
        let editions = self.editions()?;
        let mut found = Vec::new();
        for path in self.manifest_paths()? {
            let judge = |file: ManifestFile| {
                let manifest = file.under(policy)?;
                editions.check_follows(&manifest).map(|()| manifest)
            };
            match pair::read(&path, judge)? {
                Some(manifest) => found.push((path, manifest)),
                None if path.ends_with(REFERENCE) => {}
                None => return Err(FolderError::io("read", &path)(std::io::ErrorKind::NotFound.into())),
            }
        }
        Ok(found)
    }

    /// Remembers these editions, wherever they come from, so that no older one is accepted later; durable when this returns.
    /// `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`FolderError`]: `reference-rolled-back` and `reference-serial-reused` among them, if another program has accepted a
    /// newer edition meanwhile.
    pub fn remember(&self, references: &References, now: u64) -> Result<(), FolderError> {
        // Whoever only reads the folder need not be able to write to it.
        if self.editions()?.has_all(references) {
            return Ok(());
        }
        self.writer()?.remember(references, now)
    }

    /// Whether none of these manifests, wherever they come from, is older than what was accepted here before.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn check_editions(&self, references: &References) -> Result<(), FolderError> {
        let editions = self.editions()?;
        let mut manifests = references.iter();
        manifests
            .try_for_each(|manifest| editions.check_follows(manifest))
            .map_err(|refusal| FolderError::malformed(&self.path().join(EDITIONS))(refusal.into()))
    }

    pub(crate) fn editions(&self) -> Result<Editions, FolderError> {
        let path = self.path().join(EDITIONS);
        let Some(json) = optional(atomic::read(&path, MAX_CONFIG))? else { return Ok(Editions::none()) };
        Editions::parse(&json).map_err(FolderError::malformed(&path))
    }

    /// Writes a policy that was checked; durable when this returns.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn write_policy(&self, json: &str) -> Result<(), FolderError> {
        let path = self.path().join(POLICY);
        Policy::from_json(json.as_bytes()).map_err(|refusal| FolderError::malformed(&path)(refusal.into()))?;
        atomic::write(self.path(), POLICY, json.as_bytes(), Existing::Replace)
    }

    /// Writes reference values as `reference.json`; durable when this returns.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn write_reference(&self, values: &ReferenceValues) -> Result<(), FolderError> {
        atomic::write(self.path(), REFERENCE, values.to_json().as_bytes(), Existing::Replace)
    }

    pub(crate) fn manifest_paths(&self) -> Result<Vec<PathBuf>, FolderError> {
        let folder = self.references_path();
        let mut paths = vec![self.path().join(REFERENCE)];
        match fs::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(FolderError::io("list", &folder))?.path();
                    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                    if path.extension().is_some_and(|extension| extension == "json") && !hidden {
                        paths.push(path);
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FolderError::io("list", &folder)(error)),
        }
        if paths.len() > MAX_MANIFESTS {
            let fault = Malformed::Rule(format!("more than {MAX_MANIFESTS} reference manifests"));
            return Err(FolderError::malformed(&folder)(fault));
        }
        paths.sort();
        Ok(paths)
    }
}

/// Two programs that accept at once must not forget for each other, nor one of them put a file in force that the other has
/// outlived: who looks at what was accepted and acts on it holds this meanwhile.
impl Writer<'_> {
    /// [`Folder::remember`], for who has the turn already.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn remember(&mut self, references: &References, now: u64) -> Result<(), FolderError> {
        let mut editions = self.folder().editions()?;
        let mut newer = false;
        for manifest in references.iter() {
            newer |= editions.accept(manifest, now).map_err(FolderError::malformed(&self.editions_path()))?;
        }
        if newer { self.write_editions(&editions) } else { Ok(()) }
    }

    /// Remembers this edition in the place of a newer one of its name, which is forgotten: the way back from an edition that
    /// was signed by mistake, such as one with the largest serial there is. Durable when this returns. For an operator who
    /// asks for it, never for a service.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn go_back_to(&mut self, manifest: &AuthenticManifest, now: u64) -> Result<(), FolderError> {
        let mut editions = self.folder().editions()?;
        editions.replace(manifest, now).map_err(FolderError::malformed(&self.editions_path()))?;
        self.write_editions(&editions)
    }

    fn editions_path(&self) -> PathBuf {
        self.folder().path().join(EDITIONS)
    }

    fn write_editions(&mut self, editions: &Editions) -> Result<(), FolderError> {
        atomic::write(self.folder().path(), EDITIONS, editions.to_json().as_bytes(), Existing::Replace)
    }
}
