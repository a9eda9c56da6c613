//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_factory_plus_client::BaseUrl;
use latchkey_http_server::{HttpConfig, HttpConfigError};
use latchkey_kerberos::Upn;
use latchkey_service_runtime::config::{self, ConfigFileError, Schema, check_range};
use serde::Deserialize;

use crate::backend;
use crate::git::GitLimits;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `git-server.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// How the server is reached.
    pub http: HttpConfig,
    /// The directory of repositories; made if it is not there. This server's alone.
    pub repositories: PathBuf,
    /// Who passes every check, as `NAME@REALM`; nobody without it.
    pub root_principal: Option<String>,
    /// How callers are known.
    pub kerberos: KerberosConfig,
    /// The services that this one asks.
    pub centre: CentreConfig,
    /// Bounds; each has a default.
    #[serde(default)]
    pub limits: Limits,
}

/// How callers are known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KerberosConfig {
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration; `/etc/krb5.conf` without it.
    pub krb5_config: Option<PathBuf>,
    /// The keys of `service`.
    pub keytab: PathBuf,
    /// What clients get tickets for: `HTTP/HOST@REALM`. Its realm is that of users who name none.
    pub service: String,
    /// Where used tokens are remembered; in a directory that only this service writes to.
    pub replay_cache: PathBuf,
}

/// The services that this one asks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentreConfig {
    /// Who this server is there, as `NAME@REALM`.
    pub principal: String,
    /// The file with its password, which nobody else may read.
    pub password: PathBuf,
    /// The authorisation service.
    pub auth: BaseUrl,
    /// The configuration database.
    pub config_db: BaseUrl,
    /// PEM: the authorities of their certificates.
    pub authorities: Option<PathBuf>,
    /// Whether `http://` URLs may be asked: passwords are readable on the way.
    #[serde(default)]
    pub insecure: bool,
}

/// Bounds on what callers can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Runs of git at a time. Default 16.
    pub runs: u32,
    /// The same of one caller. Default 8.
    pub runs_per_caller: u32,
    /// Requests that wait for a run. Default 256.
    pub waiting: u32,
    /// Seconds that one waits. Default 30.
    pub wait_seconds: u32,
    /// Seconds that a run may take. Default 900.
    pub run_seconds: u32,
    /// Seconds in which something must move. Default 60.
    pub idle_seconds: u32,
    /// MiB of one push. Default 256.
    pub pack_mib: u32,
    /// MiB from which a repository takes no more pushes. Default 2048.
    pub repository_mib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 16,
            runs_per_caller: 8,
            waiting: 256,
            wait_seconds: 30,
            run_seconds: 900,
            idle_seconds: 60,
            pack_mib: 256,
            repository_mib: 2048,
        }
    }
}

impl Limits {
    pub(crate) fn of_git(self) -> GitLimits {
        GitLimits { pack: u64::from(self.pack_mib) << 20, ..GitLimits::default() }
    }

    pub(crate) fn of_backend(self) -> backend::Limits {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        backend::Limits {
            runs: self.runs,
            runs_per_caller: self.runs_per_caller,
            waiting: self.waiting,
            wait: seconds(self.wait_seconds),
            run: seconds(self.run_seconds),
            idle: seconds(self.idle_seconds),
            repository: u64::from(self.repository_mib) << 20,
        }
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        check_range("limits.runs", self.runs, (1, 1024))?;
        check_range("limits.runs_per_caller", self.runs_per_caller, (1, 1024))?;
        check_range("limits.waiting", self.waiting, (1, 10_000))?;
        check_range("limits.wait_seconds", self.wait_seconds, (1, 300))?;
        check_range("limits.run_seconds", self.run_seconds, (10, 7200))?;
        check_range("limits.idle_seconds", self.idle_seconds, (5, 600))?;
        check_range("limits.pack_mib", self.pack_mib, (1, 16_384))?;
        check_range("limits.repository_mib", self.repository_mib, (1, 1_048_576))
    }
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no closed JSON of the schema, or has a value out of range.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// The section `http`.
    #[error("`http`: {0}")]
    Http(#[from] HttpConfigError),
    /// No principal.
    #[error("`{field}`: {problem}")]
    Principal {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Schema for Config {
    const KNOWN: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Config {
    /// Reads, parses and checks the file at `path`.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = config::read(path)?;
        config.limits.check()?;
        config.http.check()?;
        principal("kerberos.service", &config.kerberos.service)?;
        principal("centre.principal", &config.centre.principal)?;
        config.root_principal.as_deref().map_or(Ok(()), |root| principal("root_principal", root))?;
        config.resolve_paths(path);
        Ok(config)
    }

    fn resolve_paths(&mut self, file: &Path) {
        config::resolve(file, self.http.paths());
        let KerberosConfig { helper, krb5_config, keytab, replay_cache, .. } = &mut self.kerberos;
        config::resolve(file, [&mut self.repositories, helper, keytab, replay_cache, &mut self.centre.password]);
        config::resolve(file, krb5_config.iter_mut().chain(self.centre.authorities.iter_mut()));
    }
}

fn principal(field: &'static str, text: &str) -> Result<(), ConfigError> {
    Upn::parse(text).map(drop).map_err(|error| ConfigError::Principal { field, problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../git-server.example.json");

    fn load(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn the_example_is_accepted_and_shows_the_defaults() {
        let config = load(EXAMPLE).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.limits.of_backend(), backend::Limits::default());
        assert_eq!(config.limits.of_git(), GitLimits::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, named) in [
            ("\"schema\": 1", "\"schema\": 2", "schema"),
            ("\"runs\": 16", "\"runs\": 0", "limits.runs"),
            ("\"runs\": 16", "\"rums\": 16", "rums"),
            ("sv1git@EXAMPLE.ORG", "sv1git", "centre.principal"),
            ("HTTP/git.example.org@EXAMPLE.ORG", "HTTP", "kerberos.service"),
            ("https://auth.example.org", "auth", "auth"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
