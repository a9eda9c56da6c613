//! Certificates and keys from PEM files.

use latchkey_keys::{KeyError, read_private_file};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest private key file, bytes.
pub const MAX_KEY_FILE: usize = 64 * 1024;

/// Why a file is refused. The operator's fault, all of them.
#[derive(Debug)]
pub enum PemFault {
    /// The private key's file is unsafe or unreadable.
    KeyFile(KeyError),
    /// The file cannot be read or holds nothing usable.
    Content {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        fault: String,
    },
}

/// All certificates of a file, at least one.
///
/// # Errors
/// [`PemFault::Content`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(content(path, &"no certificate in PEM form")),
        Ok(found) => Ok(found),
        Err(error) => Err(content(path, &error)),
    }
}

/// The authorities in a file.
///
/// # Errors
/// [`PemFault::Content`].
pub fn authorities(path: &Path) -> Result<Arc<RootCertStore>, PemFault> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| content(path, &error))?;
    }
    Ok(Arc::new(store))
}

/// The private key (PKCS#8, SEC1 or PKCS#1) in a file that only the service's user or root can read.
///
/// # Errors
/// [`PemFault`].
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemFault> {
    let text = read_private_file(path, MAX_KEY_FILE).map_err(PemFault::KeyFile)?;
    PrivateKeyDer::from_pem_slice(text.expose()).map_err(|_| content(path, &"no private key in PEM form"))
}

fn content(path: &Path, fault: &dyn fmt::Display) -> PemFault {
    PemFault::Content { path: path.to_owned(), fault: fault.to_string() }
}

impl fmt::Display for PemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile(error) => error.fmt(f),
            Self::Content { path, fault } => write!(f, "{}: {fault}", path.display()),
        }
    }
}

impl std::error::Error for PemFault {}
