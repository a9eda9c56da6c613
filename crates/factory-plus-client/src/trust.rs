//! Whom a client believes to be a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchkey_pem::PemSection;
use rustls::{ClientConfig, RootCertStore};

use crate::BaseUrl;

/// Whom a client believes to be a service: those whose certificates given authorities signed, and, where somebody said so,
/// whoever answers at a URL of plain HTTP.
#[derive(Debug, Clone)]
pub struct Trust {
    tls: Option<Arc<ClientConfig>>,
    plain: bool,
}

/// What somebody writes who wants URLs of plain HTTP used: passwords and tokens can be read on the way then.
#[derive(Debug, Clone, Copy)]
pub struct Insecure;

/// Why authorities are refused. The operator's fault.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}; give a file with the certificates of the authorities that services' certificates come from, in PEM form", path.display())]
pub struct TrustError {
    path: PathBuf,
    problem: String,
}

/// Largest file of authorities, bytes.
const MAX_FILE: u64 = 1 << 20;

impl Trust {
    /// No certificate and no plain HTTP: a client with it reaches nothing.
    pub const fn none() -> Self {
        Self { tls: None, plain: false }
    }

    /// The authorities of a PEM file.
    pub fn roots(path: &Path) -> Result<Self, TrustError> {
        let wrong = |problem: String| TrustError { path: path.to_owned(), problem };
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > MAX_FILE {
            return Err(wrong(format!("it has {size} bytes, more than the {MAX_FILE} of such a file")));
        }
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        Self::pem(&pem).map_err(wrong)
    }

    /// The authorities of PEM text; what is wrong with it, in words, otherwise.
    pub fn pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in PemSection::certificates(pem).map_err(|error| error.to_string())? {
            roots.add(certificate.into()).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("no certificate in PEM form".into());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Some(Arc::new(config)), plain: false })
    }

    /// The same, and URLs of plain HTTP are used, too.
    #[must_use]
    pub fn allowing(mut self, _: Insecure) -> Self {
        self.plain = true;
        self
    }

    /// How to speak to a URL: with TLS, or plainly. What must be changed, where neither is allowed.
    pub(crate) fn way_to(&self, url: &BaseUrl) -> Result<Option<Arc<ClientConfig>>, &'static str> {
        match (url.is_secure(), &self.tls) {
            (true, Some(tls)) => Ok(Some(Arc::clone(tls))),
            (true, None) => Err("no authorities are configured to know its certificate by: give their PEM file"),
            (false, _) if self.plain => Ok(None),
            (false, _) => Err("plain HTTP is not allowed here: use its https URL, or say that insecure is wanted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_needs_to_be_asked_for() {
        let (plain, secure) = ("http://h".parse().unwrap(), "https://h".parse().unwrap());
        assert!(Trust::none().way_to(&plain).is_err() && Trust::none().way_to(&secure).is_err());
        let insecure = Trust::none().allowing(Insecure);
        assert!(insecure.way_to(&plain).unwrap().is_none() && insecure.way_to(&secure).is_err());
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        assert!(Trust::roots(&path).unwrap_err().to_string().contains("ca.pem"));
        std::fs::write(&path, "a note\n-----BEGIN NOTHING-----").unwrap();
        let error = Trust::roots(&path).unwrap_err().to_string();
        assert!(error.contains("ca.pem: line 2: the section does not end"), "{error}");
    }
}
