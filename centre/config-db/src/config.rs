//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::{Path, PathBuf};

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig};
use latchkey_http_server::HttpConfig;
use latchkey_service_runtime::config::{self, Schema};
use latchkey_service_runtime::program::ProgramError;
use serde::Deserialize;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// How the service is reached.
    pub http: HttpConfig,
    /// Who verifies callers.
    pub kerberos: KerberosConfig,
    /// Where the other services are: the authorisation service is needed.
    pub centre: CentreConfig,
    /// Whose permissions are known without the authorisation service: at least its own, since it reads classes here before it
    /// can answer.
    pub access: AccessConfig,
    /// The file that holds everything; it is made when it is not there.
    pub data: PathBuf,
}

impl Schema for Config {
    const KNOWN: u32 = 1;

    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Config {
    /// Reads a file and checks it.
    pub fn load(path: &Path) -> Result<Self, ProgramError> {
        let mut config: Self = config::read(path).map_err(ProgramError::unusable)?;
        let own = std::iter::once(&mut config.data);
        let named = own.chain(config.http.paths()).chain(config.kerberos.paths()).chain(config.centre.paths());
        config::resolve(path, named);
        config.http.check().map_err(|error| ProgramError::unusable(format!("`http`: {error}")))?;
        Ok(config)
    }
}
