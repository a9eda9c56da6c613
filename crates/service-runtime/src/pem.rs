//! Certificates and keys from PEM files.

use latchkey_keys::{KeyError, read_private_file};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The object identifier of the curve P-521, DER (RFC 5480, section 2.1.1.1: secp521r1), which ring does not offer.
const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];

/// Largest private key file, bytes.
pub const MAX_KEY_FILE: usize = 64 * 1024;

/// Why a file is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The private key's file is unsafe or unreadable.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    KeyFile(KeyError),
    /// The file cannot be read or holds nothing usable.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
}

/// All certificates of a file, at least one.
///
/// # Errors
/// [`PemError::Content`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
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
/// [`PemError::Content`].
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
