//! Certificates and keys from PEM files.

use latchkey_keys::{KeyError, read_private_file};
use latchkey_pem::PemSection;
use latchkey_reason::{Reason, ReasonCode as _, reason_codes};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The object identifier of the curve P-521, DER (RFC 5480, section 2.1.1.1: secp521r1), which ring does not offer.
const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];

/// Largest private key file, bytes.
pub const MAX_KEY_FILE: usize = 64 * 1024;

/// Largest file of certificates, bytes: bundles of all public authorities have some 300 KiB.
pub const MAX_CERTIFICATES: usize = 1 << 20;

reason_codes! {
    /// Why a file of certificates or keys is not used.
    pub enum PemFileCode {
        /// The file cannot be read, or has not what it is given for.
        Unusable = "tls-file-unusable": "give a file in PEM with what the setting asks for, made for this use and valid now";
    }
}

/// Why a file is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The private key's file is unsafe or unreadable.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    KeyFile(KeyError),
    /// The file is no PEM.
    #[error("{}: {error}; {}", path.display(), error.code().remedy())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Which line, and why.
        error: latchkey_pem::PemError,
    },
    /// The file cannot be read or holds nothing usable.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
}

impl PemError {
    /// Its reason code.
    pub fn code(&self) -> Reason {
        match self {
            Self::KeyFile(error) => error.code().reason(),
            Self::Pem { error, .. } => error.code().reason(),
            Self::Content { .. } => PemFileCode::Unusable.reason(),
        }
    }
}

/// All certificates of a file of at most [`MAX_CERTIFICATES`] bytes, at least one.
///
/// # Errors
/// [`PemError::Content`], [`PemError::Pem`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let file = read(path).map_err(|error| content(path, &error))?;
    let found = PemSection::certificates(&file).map_err(|error| PemError::Pem { path: path.to_owned(), error })?;
    let found: Vec<_> = found.map(CertificateDer::from).collect();
    if found.is_empty() { Err(content(path, &"no certificate in PEM form")) } else { Ok(found) }
}

/// A file of certificates; a key may stand beside them, so that what was read is wiped.
fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let opened = File::open(path)?;
    let size = usize::try_from(opened.metadata()?.len()).unwrap_or(usize::MAX);
    // In one piece: what grows leaves copies behind.
    let mut file = Zeroizing::new(Vec::<u8>::with_capacity(size.min(MAX_CERTIFICATES) + 1));
    opened.take(MAX_CERTIFICATES as u64 + 1).read_to_end(&mut file)?;
    if file.len() > MAX_CERTIFICATES {
        let what = format!("it has more than the {MAX_CERTIFICATES} bytes of such a file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(file)
}

/// The authorities in a file.
///
/// # Errors
/// As [`certificates`]; [`PemError::Content`] for one that is none.
pub fn authorities(path: &Path) -> Result<Arc<RootCertStore>, PemError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| content(path, &error))?;
    }
    Ok(Arc::new(store))
}

/// The private key (PKCS#8, SEC1 or PKCS#1) in a file that only the service's user or root can read.
///
/// # Errors
/// [`PemError`].
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let text = read_private_file(path, MAX_KEY_FILE).map_err(PemError::KeyFile)?;
    PrivateKeyDer::from_pem_slice(text.expose()).map_err(|_| content(path, &"no private key in PEM form"))
}

/// Refuses what no client would accept of a server, or the other way round, before anybody connects: a certificate that is not
/// valid at `now`, that is not made for `usage`, or whose key is on a curve that this program does not have. Whether its issuer
/// is trusted, the peers decide.
///
/// # Errors
/// [`PemError::Content`], which says what is wrong.
pub fn check_identity(
    path: &Path,
    chain: &[CertificateDer<'_>],
    key: &PrivateKeyDer<'_>,
    usage: webpki::KeyUsage,
    now: UnixTime,
) -> Result<(), PemError> {
    if has_p521(key.secret_der()) {
        return Err(content(path, &format!("its private key is on the curve P-521; {CURVES}")));
    }
    let Some((leaf, intermediates)) = chain.split_first() else {
        return Err(content(path, &"no certificate in PEM form"));
    };
    let leaf = webpki::EndEntityCert::try_from(leaf).map_err(|error| content(path, &error))?;
    match judged(&leaf, intermediates, usage, now) {
        // There is no authority here to hold it against.
        Err(webpki::Error::UnknownIssuer) | Ok(()) => Ok(()),
        Err(error) => Err(content(path, &unusable(&error))),
    }
}

/// Refuses authorities by which no certificate can be good: those that are not valid at `now`, and keys on a curve that this
/// program does not have.
///
/// # Errors
/// [`PemError::Content`], which says what is wrong.
pub fn check_authorities(path: &Path, now: UnixTime) -> Result<(), PemError> {
    for certificate in certificates(path)? {
        let certificate = webpki::EndEntityCert::try_from(&certificate).map_err(|error| content(path, &error))?;
        if has_p521(&certificate.subject_public_key_info()) {
            return Err(content(path, &format!("an authority's key is on the curve P-521; {CURVES}")));
        }
        // An authority is no end of a chain, which is looked at after its validity.
        if let Err(error @ (webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. })) =
            judged(&certificate, &[], webpki::KeyUsage::client_auth(), now)
        {
            return Err(content(path, &unusable(&error)));
        }
    }
    Ok(())
}

const CURVES: &str = "use P-256, P-384, Ed25519, or RSA of at least 2048 bits";

fn judged(
    certificate: &webpki::EndEntityCert<'_>,
    intermediates: &[CertificateDer<'_>],
    usage: webpki::KeyUsage,
    now: UnixTime,
) -> Result<(), webpki::Error> {
    certificate.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &[], intermediates, now, usage, None, None).map(drop)
}

fn has_p521(der: &[u8]) -> bool {
    der.windows(P521.len()).any(|window| window == P521)
}

fn unusable(error: &webpki::Error) -> String {
    match error {
        webpki::Error::CertExpired { .. } => {
            "a certificate has expired: renew it, or correct this machine's clock".into()
        }
        webpki::Error::CertNotValidYet { .. } => {
            "a certificate is not valid yet: correct this machine's clock, or issue it anew".into()
        }
        webpki::Error::RequiredEkuNotFoundContext(_) => {
            "the certificate is not made for this: issue it with the extended key usage serverAuth for a server, or \
             clientAuth for a client"
                .into()
        }
        webpki::Error::CaUsedAsEndEntity => {
            "this is the certificate of an authority: give the one that it issued".into()
        }
        other => other.to_string(),
    }
}

fn content(path: &Path, problem: &dyn fmt::Display) -> PemError {
    PemError::Content { path: path.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

    use super::*;
    use std::fs;

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nAQID\nBA==\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_file_of_certificates_is_read_whole_or_refused_with_its_line_and_code() {
        let directory = tempfile::tempdir().unwrap();
        let read = |content: &str| {
            let path = directory.path().join("tls.pem");
            fs::write(&path, content).unwrap();
            certificates(&path).map(|found| found.len()).map_err(|error| (error.code().code, error.to_string()))
        };
        let key = ONE.replace("CERTIFICATE", "PRIVATE KEY");
        assert_eq!(read(&format!("subject=CN = a\n{ONE}{key}behind it\n{ONE}")), Ok(2));
        let refused = |content: &str, code: &str, words: &str| {
            let (found, sentence) = read(content).unwrap_err();
            assert!(found == code && sentence.contains("tls.pem") && sentence.contains(words), "{found}: {sentence}");
        };
        // A section that a slip cut off would be one that is missed.
        refused(&format!("{ONE}{}", &ONE[..40]), "pem-malformed", "line 5: the section does not end");
        refused(&ONE.replace("AQID", "AQ!D"), "pem-malformed", "line 1: the section is not base64");
        refused(&key, "tls-file-unusable", "no certificate in PEM form");
        refused(&"x".repeat(MAX_CERTIFICATES + 1), "tls-file-unusable", "more than the 1048576 bytes");
    }
}
