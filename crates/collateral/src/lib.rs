//! What vendors of confidential hardware publish for verifiers, as a directory: no server of theirs is asked while a machine
//! waits for its ticket, and a site without a network copies the files.
//!
//! ```text
//! DIRECTORY/
//!   snp/    AMD's chains and lists of revoked authorities, certificates of chips and providers: *.pem, *.der, *.crl, *.crt
//!   tpm/    what authorities of TPMs' keys revoked: lists in PEM or DER, one of each authority
//!   tdx/    Intel's root, authorities and lists, TCB information of platforms, the identity of the quoting enclave: *.pem, *.crl, *.json
//! ```
//!
//! One of them is enough. In a cluster that keeps itself in its API server, one object has the same files ([`Bundle`]).
//!
//! Names of files mean nothing: what a file is, it says itself. What nobody can read is an error, and never passed over.
//!
//! With the feature `fetch`, [`fetch`] gets what belongs to a report.

#[cfg(feature = "fetch")]
pub mod fetch;

mod bundle;
#[cfg(feature = "fake-processors")]
mod fake_roots;
mod stamp;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use latchkey_attestation::Refusal;
use latchkey_attestation::policy::TpmRevocations;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::verify::snp::SnpInventory;
use latchkey_attestation::verify::tdx::TdxInventory;

use bundle::Files;
pub use bundle::{Bundle, Entries, MAX_OBJECT};

#[cfg(feature = "fake-processors")]
pub use fake_roots::{publish_fake, publish_fake_intel};
pub use stamp::{Stamp, stamp};

/// Why a directory is no collateral.
#[derive(Debug, thiserror::Error)]
pub enum CollateralError {
    /// It, or a file in it, cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There are more files, or larger ones, than anybody publishes.
    #[error("{}: {what}", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// What is too large.
        what: String,
    },
    /// A file has a name, or an object an entry, that cannot be taken.
    #[error("{}: {what}", path.display())]
    Unfit {
        /// Which.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A file is not what it has to be.
    #[error(transparent)]
    Refused(Refusal),
}

/// All of a directory.
#[derive(Debug)]
pub struct Collateral {
    /// What processors' words are verified by: AMD's part and Intel's, each where there is a directory of it.
    pub processors: ProcessorCollateral,
    /// What authorities of TPMs revoked; nothing without a directory `tpm`.
    pub tpm: TpmRevocations,
}

/// Reads a collateral directory: the parts that are there.
///
/// # Errors
/// [`CollateralError`], also where no part is there; `collateral-malformed` and `collateral-root-unknown` name the file.
pub fn read(directory: &Path) -> Result<Collateral, CollateralError> {
    Bundle::of_directory(directory)?.read()
}

/// What is there, the bad as well as the good.
#[derive(Debug)]
pub struct Inventory {
    /// What authorities of TPMs revoked, or why it cannot be read.
    pub tpm: Result<TpmRevocations, Refusal>,
    /// AMD's part.
    pub snp: Option<SnpInventory>,
    /// Intel's part.
    pub tdx: Option<TdxInventory>,
}

/// The same, file by file: what each is, or why it is nothing.
///
/// # Errors
/// [`CollateralError::Unreadable`], [`CollateralError::TooLarge`]; no part is there.
pub fn list(directory: &Path) -> Result<Inventory, CollateralError> {
    Ok(Bundle::of_directory(directory)?.list())
}

#[cfg(feature = "fetch")]
fn tdx_inventory(directory: &Path, files: &[latchkey_attestation::verify::CollateralFile<'_>]) -> TdxInventory {
    #[cfg(feature = "fake-processors")]
    if let Some(root) = fake_roots::of_directory(directory).intel {
        return TdxInventory::with_fake_root(files, root);
    }
    let _ = directory;
    TdxInventory::new(files)
}

/// One vendor's files, if there is a directory of them.
fn read_part(directory: &Path, part: &str) -> Result<Option<Files>, CollateralError> {
    let path = directory.join(part);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => read_files(&path).map(Some),
    }
}

/// AMD's part.
const SNP: &str = "snp";
/// Intel's part.
const TDX: &str = "tdx";
/// Lists of TPMs' authorities.
const TPM: &str = "tpm";
/// All of them.
const PARTS: [&str; 3] = [SNP, TDX, TPM];

/// The files of a directory, in order of their names. What begins with a dot is none: editors and copying programs leave such.
fn paths(directory: &Path) -> Result<Vec<PathBuf>, CollateralError> {
    let unreadable = |source| CollateralError::Unreadable { path: directory.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        if paths.len() == MAX_FILES {
            let what = format!("more than {MAX_FILES} files");
            return Err(CollateralError::TooLarge { path: directory.to_owned(), what });
        }
        paths.push(path);
    }
    paths.sort();
    Ok(paths)
}

fn read_files(directory: &Path) -> Result<Files, CollateralError> {
    let (mut files, mut total) = (Vec::new(), 0);
    for path in paths(directory)? {
        let file = read_file(&path, MAX_FILE)?;
        total += file.1.len();
        if total > MAX_TOTAL {
            let what = format!("more than {MAX_TOTAL} bytes in all files");
            return Err(CollateralError::TooLarge { path: directory.to_owned(), what });
        }
        files.push(file);
    }
    Ok(files)
}

fn read_file(path: &Path, max: u64) -> Result<(String, Vec<u8>), CollateralError> {
    let unreadable = |source| CollateralError::Unreadable { path: path.to_owned(), source };
    // Whoever opens a pipe waits for somebody to write into it.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > max {
        let what = format!("more than {max} bytes");
        return Err(CollateralError::TooLarge { path: path.to_owned(), what });
    }
    Ok((path.display().to_string(), content))
}

/// A certificate for each chip and firmware of a large site.
const MAX_FILES: usize = 65_536;
/// A chain has 5 KiB, a list of revocations 1 KiB.
const MAX_FILE: u64 = 1024 * 1024;
/// As many certificates as there may be files, with room.
const MAX_TOTAL: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &[u8])]) -> Result<Collateral, CollateralError> {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("snp")).unwrap();
        for (name, content) in files {
            fs::write(directory.path().join("snp").join(name), content).unwrap();
        }
        read(directory.path())
    }

    /// A site without confidential machines has lists for its TPMs only.
    #[test]
    fn each_part_is_read_where_it_is_and_a_directory_of_neither_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let (snp, tpm) = (place.path().join("snp"), place.path().join("tpm"));
        assert!(read(place.path()).is_err());
        fs::create_dir(&tpm).unwrap();
        let both = |at: &Path| read(at).map(|it| (it.processors.snp.is_some(), it.tpm.count()));
        assert_eq!(both(place.path()).unwrap(), (false, 0));
        fs::create_dir(&snp).unwrap();
        assert_eq!(both(place.path()).unwrap(), (true, 0));
        fs::write(tpm.join("vendor.crl"), "fetched on Monday").unwrap();
        let error = both(place.path()).unwrap_err();
        assert!(error.to_string().contains("vendor.crl"), "{error}");
        fs::remove_dir_all(&tpm).unwrap();
        assert_eq!(both(place.path()).unwrap(), (true, 0));
    }

    #[test]
    fn a_directory_that_is_missing_too_large_or_holds_something_else_is_refused_by_name() {
        let nowhere = tempfile::tempdir().unwrap();
        let error = read(nowhere.path()).unwrap_err();
        assert!(matches!(&error, CollateralError::Unreadable { path, .. } if path == nowhere.path()), "{error}");
        let error = with(&[("chain.pem", &vec![b'a'; 1024 * 1024 + 1])]).unwrap_err();
        assert!(matches!(error, CollateralError::TooLarge { .. }), "{error}");
        let error = with(&[("notes.txt", b"fetched on Monday")]).unwrap_err();
        assert!(error.to_string().contains("notes.txt"), "{error}");
        let nested = tempfile::tempdir().unwrap();
        fs::create_dir_all(nested.path().join("snp/milan")).unwrap();
        let error = read(nested.path()).unwrap_err();
        assert!(matches!(&error, CollateralError::Unreadable { path, .. } if path.ends_with("milan")), "{error}");
        assert!(with(&[(".notes.swp", b"an editor's")]).is_ok());
    }
}
