//! Who a client is.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_factory_plus::Upn;
use latchkey_keys::{KeyError, read_private_file};
use zeroize::Zeroizing;

use crate::BaseUrl;

/// A future of [`Credentials`].
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What gets a client its token. Basic is one way; another mechanism is another implementation.
pub trait Credentials: Send + Sync {
    /// The value of the header Authorization for one request to `service`, or why there is none and what helps.
    fn authorization<'a>(&'a self, service: &'a BaseUrl) -> Pending<'a, Result<Zeroizing<String>, String>>;
}

/// Who a client is. Each service's token is got with it once, and again before it expires.
#[derive(Clone)]
pub struct Identity(Arc<dyn Credentials>);

/// Why an identity is refused.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No password, or one with control characters.
    #[error("the password is empty, longer than 1000 bytes, or has control characters, which Basic cannot carry")]
    Password,
    /// The password's file is unsafe or unreadable.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    File(KeyError),
}

/// Longest password, bytes.
const LONGEST_PASSWORD: usize = 1000;

impl Identity {
    /// With a mechanism of one's own.
    pub fn new(credentials: Arc<dyn Credentials>) -> Self {
        Self(credentials)
    }

    /// A UPN and its password, as Basic (RFC 7617).
    pub fn basic(upn: &Upn, password: &Zeroizing<String>) -> Result<Self, IdentityError> {
        let printable = |text: &str| !text.chars().any(char::is_control);
        if password.is_empty() || password.len() > LONGEST_PASSWORD || !printable(password) {
            return Err(IdentityError::Password);
        }
        let pair = Zeroizing::new(format!("{upn}:{}", password.as_str()));
        let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
        Ok(Self(Arc::new(Basic(Zeroizing::new(format!("Basic {}", encoded.as_str()))))))
    }

    /// The same with the password in a file that nobody else may read; one line end at its end is not part of it.
    pub fn from_file(upn: &Upn, path: &Path) -> Result<Self, IdentityError> {
        let bytes = read_private_file(path, LONGEST_PASSWORD + 2).map_err(IdentityError::File)?;
        let text = std::str::from_utf8(bytes.expose()).map_err(|_| IdentityError::Password)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        Self::basic(upn, &Zeroizing::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
    }

    /// The value of the header Authorization for one request to `service`, for credentials that are made of others; or why there is
    /// none and what helps.
    ///
    /// # Errors
    /// A sentence.
    pub async fn authorization(&self, service: &BaseUrl) -> Result<Zeroizing<String>, String> {
        self.0.authorization(service).await
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

struct Basic(Zeroizing<String>);

impl Credentials for Basic {
    fn authorization<'a>(&'a self, _: &'a BaseUrl) -> Pending<'a, Result<Zeroizing<String>, String>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_password_is_read_from_a_private_file_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let upn: Upn = "sv1git@R".parse().unwrap();
        std::fs::write(&path, "geheim\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Identity::from_file(&upn, &path), Err(IdentityError::File(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let identity = Identity::from_file(&upn, &path).unwrap();
        let url = "https://h".parse().unwrap();
        // The oracle: printf 'sv1git@R:geheim' | base64
        assert_eq!(smol::block_on(identity.authorization(&url)).unwrap().as_str(), "Basic c3YxZ2l0QFI6Z2VoZWlt");
        assert_eq!(format!("{identity:?}"), "Identity(..)");
    }

    #[test]
    fn what_basic_cannot_carry_is_refused() {
        let upn: Upn = "a@R".parse().unwrap();
        let basic = |password: &str| Identity::basic(&upn, &Zeroizing::new(password.into()));
        assert!(basic("p:w").is_ok());
        for password in ["", "a\nb", &"a".repeat(1001)] {
            assert!(matches!(basic(password), Err(IdentityError::Password)));
        }
    }
}
