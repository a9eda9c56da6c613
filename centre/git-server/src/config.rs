//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;
use std::time::Duration;

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig, shared_paths};
use latchkey_factory_plus_server::{HttpConfig, HttpConfigError};
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, check_range};
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
    /// How callers are verified.
    pub kerberos: KerberosConfig,
    /// Where the other services are: the authorisation service and the configuration database are needed.
    pub centre: CentreConfig,
    /// Whose permissions are known without the authorisation service.
    #[serde(default)]
    pub access: AccessConfig,
    /// Bounds; each has a default.
    #[serde(default)]
    pub limits: Limits,
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
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.limits.check()?;
        Ok(self.http.check()?)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        std::iter::once(&mut self.repositories)
            .chain(shared_paths(&mut self.http, &mut self.kerberos, &mut self.centre))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EXAMPLE: &str = include_str!("../git-server.example.json");

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes())
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
            ("https://auth.example.org", "auth", "auth"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
