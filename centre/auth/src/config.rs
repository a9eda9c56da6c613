//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::collections::BTreeSet;
use std::path::PathBuf;

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig, shared_paths};
use latchkey_factory_plus::{Realm, Upn};
use latchkey_factory_plus_server::HttpConfig;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use serde::Deserialize;

use crate::rights::Rules;
use crate::{ForeignRealm, Realms};

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory. `auth.example.json` shows
/// every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// How the service is reached.
    pub http: HttpConfig,
    /// Who verifies callers.
    pub kerberos: KerberosConfig,
    /// Where the other services are: the configuration database is needed. It has to know this service's permissions without
    /// asking it (`access.fixed` there): to read the members of classes, and registrations.
    pub centre: CentreConfig,
    /// Who passes every check, and what principals may do here beside what is granted to them: services ask for access lists
    /// before anything is granted.
    #[serde(default)]
    pub access: AccessConfig,
    /// A Unix socket that the broker's plugin asks; without it, none is made.
    pub broker_socket: Option<PathBuf>,
    /// Users, by number, whose processes may ask there. Default: this service's own.
    pub broker_users: Option<BTreeSet<u32>>,
    /// Realms beside `kerberos.realm` whose principals can be given an identity: those that its KDC trusts.
    #[serde(default)]
    pub trusted_realms: BTreeSet<Realm>,
    /// The file that holds everything; it is made when it is not there.
    pub data: PathBuf,
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
    /// Somebody who could not log in.
    #[error("`access`: {0}")]
    Access(ForeignRealm),
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.http.check()?;
        self.rules().map(drop)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let own = std::iter::once(&mut self.data).chain(&mut self.broker_socket);
        own.chain(shared_paths(&mut self.http, &mut self.kerberos, &mut self.centre)).collect()
    }
}

impl Config {
    /// Realms, and who is root.
    ///
    /// # Errors
    /// [`ConfigError::Access`].
    pub fn rules(&self) -> Result<Rules, ConfigError> {
        let realms = Realms::new(self.kerberos.realm.clone(), self.trusted_realms.clone());
        let known = |upn: &Upn| realms.check(upn).map(|()| upn.clone());
        let AccessConfig { root, fixed } = &self.access;
        let root = root.as_ref().map(known).transpose().map_err(ConfigError::Access)?;
        let fixed = fixed.iter().map(|(upn, list)| Ok((known(upn)?, list.as_slice().into())));
        let fixed = fixed.collect::<Result<_, _>>().map_err(ConfigError::Access)?;
        Ok(Rules { realms, root, fixed })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes())
    }

    const EXAMPLE: &str = include_str!("../auth.example.json");

    #[test]
    fn the_example_is_accepted_and_its_paths_are_relative_to_it() {
        let config = load(EXAMPLE).unwrap();
        assert!(config.kerberos.keytab.is_absolute() && config.data.is_absolute());
        let rules = config.rules().unwrap();
        assert_eq!(rules.root.unwrap().as_str(), "admin@FACTORY.EXAMPLE");
        assert_eq!(rules.fixed.len(), 1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_field() {
        for (from, to, expected) in [
            ("\"schema\": 1", "\"schema\": 2", "schema"),
            ("\"schema\": 1", "\"schema\": 1, \"debug\": true", "unknown field `debug`"),
            ("\"admin@FACTORY.EXAMPLE\"", "\"admin@OTHER\"", "`access`"),
            ("\"admin@FACTORY.EXAMPLE\"", "\"admin\"", "NAME@REALM"),
            ("[\"PARTNER.EXAMPLE\"]", "[\"A B\"]", "trusted_realms"),
            ("\"127.0.0.1:9005\"", "\"0.0.0.0:9005\"", "loopback"),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let error = load(&EXAMPLE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
