//! A manifest and its signature: two files, as stock `minisign` wants them, that change one after the other.
//!
//! `X.json` counts with the signature in `X.json.minisig`, or with that in `X.json.minisig.new`, which is there while an
//! revision is being put in force, and after a crash in the middle of that. So there is a good pair at every moment:
//!
//! | step | `X.json` | `.minisig` | `.minisig.new` |
//! |---|---|---|---|
//! | before | old | old | – |
//! | 1 | old | old | new |
//! | 2 | new | old | new |
//! | 3 | new | new | – |
//!
//! Who reads while somebody writes may find a manifest of before with a signature of after; such a one is read again.

use crate::atomic::{self, Existing};
use crate::error::StoreError;
use crate::store::{MAX_CONFIG, optional};
use crate::writer::Writer;
use latchkey_attestation::reference::Signature;
use latchkey_attestation::{AuthenticManifest, ManifestFile, Policy, Refusal};
use latchkey_durable_file::place;
use std::path::{Path, PathBuf};

/// How often files that change while they are read are read again: nobody installs so many revisions meanwhile.
const READS: usize = 16;

/// What lies in the files at one moment, or nearly.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    manifest: Vec<u8>,
    signature: Option<Vec<u8>>,
    next: Option<Vec<u8>>,
}

/// Where a manifest's signature is: beside it, where `minisign` puts it and looks for it.
pub fn signature_of(manifest: &Path) -> PathBuf {
    with_ending(manifest, ".minisig")
}

/// Where the signature is of a revision that is being put in force.
fn next_signature_of(manifest: &Path) -> PathBuf {
    with_ending(manifest, ".minisig.new")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The manifest at `path`, once `judge` takes it with one of its signatures; `None` without a manifest.
pub(crate) fn read(
    path: &Path,
    judge: impl Fn(ManifestFile) -> Result<AuthenticManifest, Refusal>,
) -> Result<Option<AuthenticManifest>, StoreError> {
    let Some(mut pair) = Pair::read(path)? else { return Ok(None) };
    let mut judged = pair.judge(&judge);
    for _ in 0..READS {
        if judged.is_ok() {
            break;
        }
        match Pair::read(path)? {
            Some(again) if again != pair => pair = again,
            _ => break,
        }
        judged = pair.judge(&judge);
    }
    judged.map(|(manifest, _)| Some(manifest)).map_err(|refusal| StoreError::malformed(path)(refusal.into()))
}

impl Pair {
    fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(manifest) = optional(atomic::read(path, MAX_CONFIG))? else { return Ok(None) };
        let signature = optional(atomic::read(&signature_of(path), Signature::MAX))?;
        let next = optional(atomic::read(&next_signature_of(path), Signature::MAX))?;
        Ok(Some(Self { manifest, signature, next }))
    }

    /// The manifest, and whether only the next signature is of it. What is wrong is said of the usual one.
    fn judge(
        &self,
        judge: impl Fn(ManifestFile) -> Result<AuthenticManifest, Refusal>,
    ) -> Result<(AuthenticManifest, bool), Refusal> {
        let with = |signature: &Option<Vec<u8>>| judge(ManifestFile::new(self.manifest.clone(), signature.clone()));
        with(&self.signature).map(|manifest| (manifest, false)).or_else(|refusal| match &self.next {
            None => Err(refusal),
            next => with(next).map(|manifest| (manifest, true)).map_err(|_| refusal),
        })
    }
}

/// One change that is there as a whole or not at all, and durable.
#[derive(Debug)]
enum Step<'a> {
    Write(PathBuf, &'a [u8]),
    Move(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Step<'_> {
    fn take(&self, directory: &Path) -> Result<(), StoreError> {
        match self {
            Self::Write(path, bytes) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                atomic::write(path.parent().unwrap_or(directory), &name, bytes, Existing::Replace)
            }
            Self::Move(from, to) => place(from, to).map_err(StoreError::io("write", to)),
            Self::Remove(path) => atomic::remove(path).map(drop),
        }
    }
}

impl Writer<'_> {
    /// Puts a manifest, with its signature, in the place of the one at `path`, which is a file of this directory. Whoever reads
    /// the directory finds the old revision or the new one, at every moment and after a crash at any.
    ///
    /// The caller answers for the revision being no older than what was accepted: it has looked while holding this, and
    /// remembers it before it lets go.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn put_manifest(
        &mut self,
        policy: &Policy,
        path: &Path,
        manifest: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(self.directory().path());
        steps(policy, path, manifest, signature)?.iter().try_for_each(|step| step.take(directory))
    }
}

fn steps<'a>(
    policy: &Policy,
    path: &Path,
    manifest: &'a [u8],
    signature: Option<&'a [u8]>,
) -> Result<Vec<Step<'a>>, StoreError> {
    let (usual, next) = (signature_of(path), next_signature_of(path));
    // An earlier installation that was cut off between its last steps: its signature gets its place, ours needs the other.
    let cut_off = Pair::read(path)?.is_some_and(|pair| matches!(pair.judge(|file| file.under(policy)), Ok((_, true))));
    let mut steps = if cut_off { vec![Step::Move(next.clone(), usual.clone())] } else { Vec::new() };
    let write = Step::Write(path.into(), manifest);
    match signature {
        Some(signature) => steps.extend([Step::Write(next.clone(), signature), write, Step::Move(next, usual)]),
        // Whoever trusts the file itself asks for no signature.
        None => steps.extend([Step::Remove(next), Step::Remove(usual), write]),
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterStore;
    use latchkey_attestation::Digest;
    use latchkey_attestation::ReferenceValues;
    use latchkey_attestation::reference::{Description, ManifestName, Origin, PlatformProfile, Reference};
    use latchkey_measurements::signing::{SignedManifest, SigningKey};
    use latchkey_test_support::PATIENCE;
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Instant;

    /// So often is read while revisions are installed, at least.
    const READINGS: usize = 100;

    struct Site {
        directory: tempfile::TempDir,
        policy: Policy,
    }

    impl Site {
        fn new(key: &SigningKey) -> Self {
            let policy = serde_json::json!({
                "version": 3, "ek_templates": ["ecc-p256"],
                "lock": "pcr-15", "ak_algorithms": ["ecdsa-p256-sha256"],
                "ak_trust": [{"kind": "pinned-ek", "ek_sha256": ["00".repeat(32)]}],
                "pcrs": {"enforce": [4], "warn": []},
                "references": [{"manifest": "edge", "minimum_version": "0.0.0", "signers": [key.public()]}],
            });
            let policy = Policy::from_json(policy.to_string().as_bytes()).unwrap();
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("references")).unwrap();
            Self { directory, policy }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("references/edge.json")
        }

        /// Which revision is in force.
        fn serial(&self) -> u64 {
            let directory = ClusterStore::at(self.directory.path());
            let references = directory.references(&self.policy).unwrap();
            references.iter().next().unwrap().values().serial()
        }

        /// Takes the first steps of an installation; whether it was all of them.
        fn install(&self, revision: &SignedManifest, most: usize) -> bool {
            let (manifest, signature) = (revision.manifest.as_bytes(), revision.signature.as_bytes());
            let steps = steps(&self.policy, &self.path(), manifest, Some(signature)).unwrap();
            steps.iter().take(most).for_each(|step| step.take(&self.directory.path().join("references")).unwrap());
            most >= steps.len()
        }
    }

    fn revision(key: &SigningKey, serial: u64) -> SignedManifest {
        let name = ManifestName::new("edge").unwrap();
        let version = "1.0.0".parse().unwrap();
        let about = Description { manifest: name, serial, image: "edge", version, by: "test", at: None };
        let value = Digest([7; 32]);
        let origin = Origin { products: [("image.raw".to_owned(), value)].into(), ..Origin::default() };
        let machine = PlatformProfile::new("test", [(4, Reference::enforced(value))].into());
        key.sign_manifest(&ReferenceValues::predicted(&about, origin, vec![machine]).unwrap()).unwrap()
    }

    #[test]
    fn a_crash_between_any_two_steps_leaves_a_revision_that_is_taken_and_the_next_one_can_be_installed() {
        let key = SigningKey::generate().unwrap();
        let revisions = [1, 2, 3].map(|serial| revision(&key, serial));
        for first in 0..=4 {
            for second in 0..=5 {
                let site = Site::new(&key);
                assert!(site.install(&revisions[0], usize::MAX));
                let whole = site.install(&revisions[1], first);
                let after_first = site.serial();
                assert!(after_first == 2 || (after_first == 1 && !whole), "{first}");
                let whole = site.install(&revisions[2], second);
                let after_second = site.serial();
                assert!(after_second == 3 || (after_second == after_first && !whole), "{first}, {second}");
                if whole {
                    // What stock minisign looks for, and nothing else.
                    let left = fs::read_dir(site.directory.path().join("references")).unwrap().count();
                    assert_eq!((after_second, left), (3, 2), "{first}, {second}");
                }
            }
        }
    }

    #[test]
    fn whoever_reads_while_revisions_are_installed_always_finds_a_good_one() {
        let key = SigningKey::generate().unwrap();
        let site = Site::new(&key);
        assert!(site.install(&revision(&key, 1), usize::MAX));
        let (readings, begun) = (AtomicUsize::new(0), Instant::now());
        let installed = thread::scope(|scope| {
            let installs = scope.spawn(|| {
                let mut serial = 1;
                while serial < 60 || readings.load(Ordering::SeqCst) < READINGS {
                    let read = readings.load(Ordering::SeqCst);
                    assert!(begun.elapsed() < PATIENCE, "revision {serial}, and only {read} readings");
                    serial += 1;
                    assert!(site.install(&revision(&key, serial), usize::MAX));
                }
                serial
            });
            let mut newest = 0;
            while !installs.is_finished() {
                let serial = site.serial();
                assert!(serial >= newest);
                newest = serial;
                readings.fetch_add(1, Ordering::SeqCst);
            }
            installs.join().unwrap()
        });
        assert_eq!(site.serial(), installed);
    }

    #[test]
    fn another_s_signature_is_taken_from_neither_place() {
        let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let (ours, theirs) = (revision(&key, 1), revision(&other, 2));
        let site = Site::new(&key);
        assert!(site.install(&ours, usize::MAX));
        fs::write(site.path(), &theirs.manifest).unwrap();
        fs::write(next_signature_of(&site.path()), &theirs.signature).unwrap();
        let directory = ClusterStore::at(site.directory.path());
        assert!(directory.references(&site.policy).is_err());
    }
}
