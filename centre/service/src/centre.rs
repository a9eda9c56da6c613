//! Where the other services of the centre are, and who this one is to them.

use std::path::PathBuf;

use latchkey_factory_plus::{Upn, Uuid, uuids};
use latchkey_factory_plus_client::{
    BaseUrl, Client, Identity, IdentityError, Insecure, Limits, Services, Settings, Trust, TrustError,
};
use serde::Deserialize;

/// How this service reaches the others. Relative paths are relative to the configuration's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentreConfig {
    /// What Kerberos calls this service.
    pub principal: Upn,
    /// The file with its password; nobody else may read it.
    pub password_file: PathBuf,
    /// Where the services are.
    pub services: ServiceUrls,
    /// PEM: the authorities of the services' certificates. It is needed where a URL is https.
    pub authorities: Option<PathBuf>,
    /// Whether URLs may be plain http: passwords and tokens are readable on the way then.
    #[serde(default)]
    pub insecure: bool,
}

/// Where services are. One that is not named is asked for at the directory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceUrls {
    /// The directory.
    pub directory: Option<BaseUrl>,
    /// The configuration database.
    pub config_db: Option<BaseUrl>,
    /// The authorisation service.
    pub auth: Option<BaseUrl>,
    /// The git server.
    pub git: Option<BaseUrl>,
    /// The cluster manager.
    pub cluster_manager: Option<BaseUrl>,
}

/// Why the others cannot be reached with a section.
#[derive(Debug, thiserror::Error)]
pub enum CentreError {
    /// The password.
    #[error("`centre.password_file`: {0}")]
    Identity(#[from] IdentityError),
    /// The authorities.
    #[error("`centre.authorities`: {0}")]
    Trust(#[from] TrustError),
    /// A URL without TLS, and nobody said that this is wanted.
    #[error("{0} is plain http; use https, or say `\"insecure\": true` where nobody else can read the network")]
    Plain(BaseUrl),
    /// A URL with TLS, and no authority.
    #[error("{0} is https, and `centre.authorities` names no file of authorities to hold its certificate against")]
    NoAuthorities(BaseUrl),
    /// Neither a directory nor this service's URL.
    #[error("`centre.services` names neither the {0} nor a directory")]
    Unknown(&'static str),
}

impl ServiceUrls {
    /// Each that is named.
    pub fn named(&self) -> impl Iterator<Item = (Uuid, &BaseUrl)> {
        [
            (uuids::service::DIRECTORY, &self.directory),
            (uuids::service::CONFIG_DB, &self.config_db),
            (uuids::service::AUTH, &self.auth),
            (uuids::service::GIT, &self.git),
            (uuids::service::CLUSTER_MANAGER, &self.cluster_manager),
        ]
        .into_iter()
        .filter_map(|(uuid, url)| url.as_ref().map(|url| (uuid, url)))
    }
}

impl CentreConfig {
    /// The paths in it, for making them absolute.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.password_file].into_iter().chain(self.authorities.as_mut())
    }

    /// Reads the files, and gives the client. `needs` are the services that this one cannot do without, with their names.
    pub fn client(&self, needs: &[(Uuid, &'static str)]) -> Result<Client, CentreError> {
        for (uuid, name) in needs {
            let named = self.services.named().any(|(known, _)| known == *uuid || known == uuids::service::DIRECTORY);
            if !named {
                return Err(CentreError::Unknown(name));
            }
        }
        for (_, url) in self.services.named() {
            match (url.is_secure(), self.insecure, &self.authorities) {
                (false, false, _) => return Err(CentreError::Plain(url.clone())),
                (true, _, None) => return Err(CentreError::NoAuthorities(url.clone())),
                _ => {}
            }
        }
        let trust = self.authorities.as_deref().map_or_else(|| Ok(Trust::none()), Trust::roots)?;
        Ok(Client::new(Settings {
            identity: Identity::from_file(&self.principal, &self.password_file)?,
            trust: if self.insecure { trust.allowing(Insecure) } else { trust },
            services: Services::fixed(self.services.named().map(|(uuid, url)| (uuid, url.clone()))),
            limits: Limits::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str, insecure: bool) -> CentreConfig {
        let password_file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&password_file, "secret").unwrap();
        serde_json::from_value(serde_json::json!({
            "principal": "sv1git@R", "password_file": password_file.keep().unwrap().1, "services": {"auth": url}, "insecure": insecure,
        }))
        .unwrap()
    }

    #[test]
    fn passwords_go_in_the_clear_only_where_that_was_said() {
        let auth = [(uuids::service::AUTH, "authorisation service")];
        assert!(config("http://127.0.0.1:1", true).client(&auth).is_ok());
        assert!(matches!(config("http://127.0.0.1:1", false).client(&auth), Err(CentreError::Plain(_))));
        assert!(matches!(config("https://127.0.0.1:1", true).client(&auth), Err(CentreError::NoAuthorities(_))));
        let git = [(uuids::service::GIT, "git server")];
        assert!(matches!(config("http://127.0.0.1:1", true).client(&git), Err(CentreError::Unknown("git server"))));
    }
}
