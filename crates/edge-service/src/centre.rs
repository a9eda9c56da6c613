//! Where the centre is.

use std::path::PathBuf;

use latchkey_factory_plus_client::{BaseUrl, Client, Insecure, Limits, Services, Settings, Trust, TrustError};
use serde::Deserialize;

use crate::AccountSection;

/// Where the centre is, and whom to believe to be it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentreSection {
    /// The directory, which knows where all other services are.
    pub directory: BaseUrl,
    /// PEM: the authorities of the services' certificates; no others are believed.
    pub authority: Option<PathBuf>,
    /// Whether URLs may be plain http: passwords and tokens are readable on the way then.
    #[serde(default)]
    pub insecure: bool,
}

/// Why the centre cannot be reached with a section. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum CentreError {
    /// The password or the principal.
    #[error("{0}")]
    Account(String),
    /// The authorities.
    #[error("`centre.authority`: {0}")]
    Trust(#[from] TrustError),
    /// A URL without TLS, and nobody said that this is wanted.
    #[error(
        "`centre.directory` is {0}, plain http; use https, or say `\"insecure\": true` where nobody else can read the network"
    )]
    Plain(BaseUrl),
    /// A URL with TLS, and no authority.
    #[error(
        "`centre.directory` is {0}, https, and `centre.authority` names no file of authorities to hold its certificate against"
    )]
    NoAuthority(BaseUrl),
}

impl CentreSection {
    /// The paths in it, for making them absolute.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.authority.iter_mut()
    }

    /// Reads the files, and gives a client of the centre for this account; nobody is asked yet.
    ///
    /// # Errors
    /// [`CentreError`].
    pub fn client(&self, account: &AccountSection) -> Result<Client, CentreError> {
        match (self.directory.is_secure(), self.insecure, &self.authority) {
            (false, false, _) => return Err(CentreError::Plain(self.directory.clone())),
            (true, _, None) => return Err(CentreError::NoAuthority(self.directory.clone())),
            _ => {}
        }
        let trust = self.authority.as_deref().map_or_else(|| Ok(Trust::none()), Trust::roots)?;
        Ok(Client::new(Settings {
            identity: account.identity().map_err(CentreError::Account)?,
            trust: if self.insecure { trust.allowing(Insecure) } else { trust },
            services: Services::directory(self.directory.clone()),
            limits: Limits::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn passwords_go_in_the_clear_only_where_that_was_said() {
        let directory = tempfile::tempdir().unwrap();
        let password_file = directory.path().join("password");
        fs::write(&password_file, "secret").unwrap();
        fs::set_permissions(&password_file, Permissions::from_mode(0o600)).unwrap();
        let account = AccountSection { principal: "op1sync/Bolt@R".parse().unwrap(), password_file };
        let client = |text: &str| serde_json::from_str::<CentreSection>(text).unwrap().client(&account);
        assert!(client(r#"{"directory": "http://127.0.0.1:1", "insecure": true}"#).is_ok());
        assert!(matches!(client(r#"{"directory": "http://127.0.0.1:1"}"#), Err(CentreError::Plain(_))));
        let secure = r#"{"directory": "https://directory.example", "insecure": true}"#;
        assert!(matches!(client(secure), Err(CentreError::NoAuthority(_))));
        let missing = r#"{"directory": "https://directory.example", "authority": "/nonexistent/ca.pem"}"#;
        assert!(matches!(client(missing), Err(CentreError::Trust(_))));
        assert!(serde_json::from_str::<CentreSection>(r#"{"directory": "https://h", "colour": 1}"#).is_err());
    }
}
