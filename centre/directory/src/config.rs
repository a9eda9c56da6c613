//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig, shared_paths};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_server::HttpConfig;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use serde::Deserialize;

use crate::address::Domain;
use crate::advertised::{Advertisement, Services};
use crate::networks::Network;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory. `directory.example.json`
/// shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// How the service is reached.
    pub http: HttpConfig,
    /// Who verifies callers.
    pub kerberos: KerberosConfig,
    /// Where the other services are: the authorisation service is needed, to ask who may advertise.
    pub centre: CentreConfig,
    /// Whose permissions are known without the authorisation service.
    #[serde(default)]
    pub access: AccessConfig,
    /// The file that holds what others advertise; it is made when it is not there.
    pub data: PathBuf,
    /// The domain that the site's services have names directly in. Behind a proxy that is trusted, the domain that the client
    /// used is told in its place.
    pub domain: Option<Domain>,
    /// Proxies whose `X-Forwarded-Host` and `X-Forwarded-Proto` are believed: addresses or networks. Default: none.
    #[serde(default)]
    pub trusted_proxies: Vec<Network>,
    /// Where services are. Nobody can say otherwise of those; a small site needs nothing else.
    #[serde(default)]
    pub advertisements: Vec<Advertisement>,
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, or is no closed JSON of the schema.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// How the service is reached.
    #[error("`http`: {0}")]
    Http(#[from] latchkey_factory_plus_server::HttpConfigError),
    /// One service at two places.
    #[error("`advertisements` has the service {0} twice; a service is at one URL")]
    Twice(Uuid),
    /// A proxy that is believed, and nothing to tell.
    #[error("`trusted_proxies` needs `domain`: without it, nothing is told otherwise outside")]
    NoDomain,
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.http.check()?;
        if self.domain.is_none() && !self.trusted_proxies.is_empty() {
            return Err(ConfigError::NoDomain);
        }
        self.services().map(drop)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        std::iter::once(&mut self.data)
            .chain(shared_paths(&mut self.http, &mut self.kerberos, &mut self.centre))
            .collect()
    }
}

impl Config {
    /// What the file itself advertises.
    ///
    /// # Errors
    /// [`ConfigError::Twice`].
    pub fn services(&self) -> Result<Services, ConfigError> {
        let mut services = BTreeMap::new();
        for advertisement in &self.advertisements {
            if services.insert(advertisement.service, advertisement.advertised()).is_some() {
                return Err(ConfigError::Twice(advertisement.service));
            }
        }
        Ok(Services::new(services))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes())
    }

    const EXAMPLE: &str = include_str!("../directory.example.json");

    #[test]
    fn the_example_is_accepted_and_advertises_services() {
        let config = load(EXAMPLE).unwrap();
        assert_eq!(config.services().unwrap().all().count(), 2);
        assert!(config.data.is_absolute());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_field() {
        for (from, to, expected) in [
            ("\"schema\": 1", "\"schema\": 1, \"debug\": true", "unknown field `debug`"),
            ("mqtts://mqtt.factory.internal", "mqtt.factory.internal", "mqtts://"),
            ("feb27ba3-bd2c-4916-9269-79a61ebc4a47", "cab2642a-f7d9-42e5-8845-8f35affe1fd4", "twice"),
            ("\"10.0.0.0/24\"", "\"10.0.0.1/24\"", "no network"),
            ("\"domain\": \"factory.internal\",", "", "`domain`"),
            ("\"factory.internal\"", "\"10.0.0.1\"", "no host"),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let error = load(&EXAMPLE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
