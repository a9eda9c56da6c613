//! The files of a collateral, wherever they lie: in a directory, or as entries of one object in a cluster's API server, where a write is
//! whole, so that nobody reads half.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use latchkey_attestation::parse::Digest;
use latchkey_attestation::policy::TpmRevocations;
use latchkey_attestation::verify::snp::SnpInventory;
use latchkey_attestation::verify::tdx::TdxInventory;
use latchkey_attestation::verify::{CollateralFile, ProcessorCollateral};
use ring::digest::{Context, SHA256};

#[cfg(feature = "fake-processors")]
use crate::fake_roots::{self, FakeRoots};
use crate::{Collateral, CollateralError, Inventory, PARTS, Stamp, read_part};

/// Names and contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// The entries of an object: `PART.NAME`, such as `tpm.cloud.crl`, and the file's bytes.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Files that were read, and are not looked into yet.
#[derive(Debug)]
pub struct Bundle {
    place: PathBuf,
    /// In the order of [`PARTS`]; a part may be there and empty.
    parts: [Option<Files>; 3],
    #[cfg(feature = "fake-processors")]
    roots: FakeRoots,
}

impl Bundle {
    /// All of a directory.
    ///
    /// # Errors
    /// [`CollateralError::Unreadable`], also where no part is there; [`CollateralError::TooLarge`].
    pub fn of_directory(directory: &Path) -> Result<Self, CollateralError> {
        let [snp, tdx, tpm] = PARTS;
        let parts = [read_part(directory, snp)?, read_part(directory, tdx)?, read_part(directory, tpm)?];
        if parts.iter().all(Option::is_none) {
            let source = io::Error::new(io::ErrorKind::NotFound, "none of `snp`, `tdx` and `tpm` is in it");
            return Err(CollateralError::Unreadable { path: directory.to_owned(), source });
        }
        Ok(Self {
            place: directory.to_owned(),
            parts,
            #[cfg(feature = "fake-processors")]
            roots: fake_roots::of_directory(directory),
        })
    }

    /// What [`Self::entries`] made; `place` is how errors call the object. As in a directory, a name that begins with a dot is no file.
    ///
    /// # Errors
    /// [`CollateralError::Unfit`] names an entry of no part, [`CollateralError::TooLarge`].
    pub fn of_entries(place: &Path, entries: Entries) -> Result<Self, CollateralError> {
        check_size(place, &entries)?;
        #[cfg(feature = "fake-processors")]
        let roots = fake_roots::of_entries(&entries);
        let mut parts = [None, None, None];
        for (key, content) in entries {
            let path = place.join(&key);
            let found =
                key.split_once('.').and_then(|(part, name)| Some((PARTS.iter().position(|it| *it == part)?, name)));
            let Some((part, name)) = found else {
                let what = "the entry begins with none of `snp.`, `tdx.` and `tpm.`".to_owned();
                return Err(CollateralError::Unfit { path, what });
            };
            if let Some(part) = parts.get_mut(part).filter(|_| !name.starts_with('.')) {
                part.get_or_insert_with(Files::new).push((path.display().to_string(), content));
            }
        }
        Ok(Self {
            place: place.to_owned(),
            parts,
            #[cfg(feature = "fake-processors")]
            roots,
        })
    }

    /// The files as entries of one object of an API server.
    ///
    /// # Errors
    /// [`CollateralError::TooLarge`]: an object holds no more than [`MAX_OBJECT`]; [`CollateralError::Unfit`]: a name that no entry may have.
    pub fn entries(&self) -> Result<Entries, CollateralError> {
        let mut entries = Entries::new();
        for (part, files) in PARTS.iter().zip(&self.parts) {
            for (path, content) in files.iter().flatten() {
                let path = Path::new(path);
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let key = format!("{part}.{name}");
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
                if name.is_empty() || key.len() > MAX_KEY || !key.bytes().all(allowed) {
                    let what = format!(
                        "in an API server a name has letters, digits, `-`, `_` and `.`, and at most {MAX_KEY} of them: rename it, its name means nothing"
                    );
                    return Err(CollateralError::Unfit { path: path.to_owned(), what });
                }
                entries.insert(key, content.clone());
            }
        }
        check_size(&self.place, &entries)?;
        Ok(entries)
    }

    /// Whether entries are those that were read.
    pub fn stamp_of(entries: &Entries) -> Stamp {
        let mut hash = Context::new(&SHA256);
        for field in entries.iter().flat_map(|(key, content)| [key.as_bytes(), content.as_slice()]) {
            hash.update(&(field.len() as u64).to_be_bytes());
            hash.update(field);
        }
        let mut digest = Digest::ZERO;
        digest.0.copy_from_slice(hash.finish().as_ref());
        Stamp(digest)
    }

    /// What verifiers take of it.
    ///
    /// # Errors
    /// [`CollateralError::Refused`]: `collateral-malformed` and `collateral-root-unknown` name the file.
    pub fn read(&self) -> Result<Collateral, CollateralError> {
        let Inventory { snp, tdx, tpm } = self.list();
        let processors = ProcessorCollateral {
            snp: snp.map(SnpInventory::into_collateral).transpose().map_err(CollateralError::Refused)?,
            tdx: tdx.map(TdxInventory::into_collateral).transpose().map_err(CollateralError::Refused)?,
        };
        Ok(Collateral { processors, tpm: tpm.map_err(CollateralError::Refused)? })
    }

    /// File by file: what each is, or why it is nothing.
    pub fn list(&self) -> Inventory {
        let [snp, tdx, tpm] = &self.parts;
        let lists = tpm.iter().flatten().map(|(name, content)| (name.as_str(), content.as_slice())).collect::<Vec<_>>();
        Inventory {
            tpm: TpmRevocations::new(&lists),
            snp: snp.as_ref().map(|files| with_names(files, |files| self.snp_inventory(files))),
            tdx: tdx.as_ref().map(|files| with_names(files, |files| self.tdx_inventory(files))),
        }
    }

    #[cfg_attr(not(feature = "fake-processors"), expect(clippy::unused_self, reason = "tests have roots of their own"))]
    fn snp_inventory(&self, files: &[CollateralFile<'_>]) -> SnpInventory {
        #[cfg(feature = "fake-processors")]
        if let Some(roots) = &self.roots.amd {
            return SnpInventory::with_fake_roots(files, roots);
        }
        SnpInventory::new(files)
    }

    #[cfg_attr(not(feature = "fake-processors"), expect(clippy::unused_self, reason = "tests have roots of their own"))]
    fn tdx_inventory(&self, files: &[CollateralFile<'_>]) -> TdxInventory {
        #[cfg(feature = "fake-processors")]
        if let Some(root) = self.roots.intel {
            return TdxInventory::with_fake_root(files, root);
        }
        TdxInventory::new(files)
    }
}

fn with_names<T>(files: &[(String, Vec<u8>)], read: impl FnOnce(&[CollateralFile<'_>]) -> T) -> T {
    let files: Vec<_> = files.iter().map(|(name, content)| CollateralFile { name, content }).collect();
    read(&files)
}

fn check_size(place: &Path, entries: &Entries) -> Result<(), CollateralError> {
    let total: usize = entries.iter().map(|(key, content)| key.len().saturating_add(content.len())).sum();
    if total > MAX_OBJECT {
        let what = format!("{total} bytes in all files, and an object of an API server holds {MAX_OBJECT}");
        return Err(CollateralError::TooLarge { path: place.to_owned(), what });
    }
    Ok(())
}

/// Kubernetes takes 1 MiB of values in a `ConfigMap` (`MaxSecretSize` in `k8s.io/api`); names are counted here, too.
pub const MAX_OBJECT: usize = 1024 * 1024;
/// The longest key of a `ConfigMap`: a DNS subdomain (`IsConfigMapKey` in `k8s.io/apimachinery`).
const MAX_KEY: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn key_of(error: &CollateralError) -> String {
        error.to_string()
    }

    #[test]
    fn a_directory_and_the_entries_made_of_it_are_one_collateral() {
        let place = tempfile::tempdir().unwrap();
        let (snp, tpm) = (place.path().join("snp"), place.path().join("tpm"));
        fs::create_dir(&snp).unwrap();
        fs::create_dir(&tpm).unwrap();
        fs::write(snp.join("chain.pem"), "").unwrap();
        fs::write(tpm.join("cloud.crl"), "fetched on Monday").unwrap();
        fs::write(tpm.join(".cloud.swp"), "an editor's").unwrap();
        let entries = Bundle::of_directory(place.path()).unwrap().entries().unwrap();
        assert_eq!(entries.keys().collect::<Vec<_>>(), ["snp.chain.pem", "tpm.cloud.crl"]);
        let object = Path::new("configmaps/latchkey-collateral");
        let again = Bundle::of_entries(object, entries.clone()).unwrap();
        assert_eq!(again.entries().unwrap().len(), 2);
        // The refusal names the entry.
        let said = key_of(&again.read().unwrap_err());
        assert!(said.contains("configmaps/latchkey-collateral/"), "{said}");
        let stamp = Bundle::stamp_of(&entries);
        let mut changed = entries.clone();
        changed.insert("tpm.cloud.crl".to_owned(), b"fetched on Friday".to_vec());
        assert!(Bundle::stamp_of(&changed) != stamp && Bundle::stamp_of(&entries) == stamp);
        // A part without files is none in an object.
        let list = again.list();
        assert!(list.snp.is_some() && list.tdx.is_none());
    }

    #[test]
    fn entries_of_no_part_names_of_no_entry_and_what_no_object_holds_are_refused() {
        let object = Path::new("object");
        let entries = |key: &str, size: usize| Entries::from([(key.to_owned(), vec![0; size])]);
        for key in ["snp", "sgx.root.pem", "", ".snp"] {
            let said = key_of(&Bundle::of_entries(object, entries(key, 1)).unwrap_err());
            assert!(said.contains("begins with none of"), "{said}");
        }
        // What begins with a dot is no file.
        assert!(Bundle::of_entries(object, entries("snp..notes", 1)).unwrap().list().snp.is_none());
        let error = Bundle::of_entries(object, entries("snp.a", MAX_OBJECT)).unwrap_err();
        assert!(matches!(error, CollateralError::TooLarge { .. }), "{error}");

        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("tpm")).unwrap();
        let file = place.path().join("tpm/of a cloud.crl");
        fs::write(&file, "x").unwrap();
        let error = Bundle::of_directory(place.path()).unwrap().entries().unwrap_err();
        assert!(matches!(&error, CollateralError::Unfit { path, .. } if *path == file), "{error}");
        fs::remove_file(&file).unwrap();
        for name in ["a", "b"] {
            fs::write(place.path().join("tpm").join(name), vec![0; 600 * 1024]).unwrap();
        }
        let error = Bundle::of_directory(place.path()).unwrap().entries().unwrap_err();
        assert!(matches!(error, CollateralError::TooLarge { .. }), "{error}");
    }
}
