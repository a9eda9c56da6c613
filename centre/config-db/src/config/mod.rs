//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig, shared_paths};
use latchkey_factory_plus_server::{HttpConfig, HttpConfigError};
use latchkey_keys::{KeyError, read_private_file};
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use serde::Deserialize;

use crate::engine::{Embedded, Engine, EngineError, Postgres};

/// The longest connection string, in bytes.
const LONGEST_CONNECTION: usize = 4096;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory. `config-db.example.json` and
/// `config-db.postgres.example.json` show every field.
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
    /// The file that holds everything; it is made when it is not there. This or `postgres`.
    pub data: Option<PathBuf>,
    /// The `PostgreSQL` that holds everything; several of these programs may share one. This or `data`.
    pub postgres: Option<PostgresConfig>,
}

/// How a `PostgreSQL` is reached: by its socket, or by a connection string.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum PostgresConfig {
    /// A Unix socket, where the server knows this service by its user.
    Socket {
        /// The directory of the socket, an absolute path such as `/run/postgresql`.
        directory: PathBuf,
        /// The server's port, which is part of the socket's name. Default 5432.
        #[serde(default = "default_port")]
        port: u16,
        /// The role.
        user: String,
        /// The database.
        database: String,
    },
    /// A file with a connection string, such as `host=127.0.0.1 user=latchkey password=… dbname=latchkey`; no access for anybody but
    /// the service's user and root. Its host is a directory of a socket or a loopback address.
    ConnectionFile(PathBuf),
}

const fn default_port() -> u16 {
    5432
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, or is no closed JSON of the schema.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// How the service is reached.
    #[error("`http`: {0}")]
    Http(#[from] HttpConfigError),
    /// Nowhere to keep anything, or two places.
    #[error("name one of `data`, a file of this program's own, and `postgres`, and not both")]
    Place,
    /// The file with the connection string.
    #[error("`postgres.connection_file`: {0}")]
    Connection(KeyError),
    /// What it says, or what the socket's fields say.
    #[error("`postgres`: {0}")]
    Postgres(EngineError),
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.http.check()?;
        if self.data.is_some() == self.postgres.is_some() { Err(ConfigError::Place) } else { Ok(()) }
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let connection = match &mut self.postgres {
            Some(PostgresConfig::ConnectionFile(file)) => Some(file),
            Some(PostgresConfig::Socket { .. }) | None => None,
        };
        let own = self.data.as_mut().into_iter().chain(connection);
        own.chain(shared_paths(&mut self.http, &mut self.kerberos, &mut self.centre)).collect()
    }
}

impl Config {
    /// What keeps the database. Nothing is opened yet but the file with the connection string.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn engine(&self) -> Result<Box<dyn Engine>, ConfigError> {
        match (&self.data, &self.postgres) {
            (Some(data), None) => Ok(Box::new(Embedded::at(data))),
            (None, Some(postgres)) => Ok(Box::new(postgres.engine()?)),
            _ => Err(ConfigError::Place),
        }
    }
}

impl PostgresConfig {
    fn engine(&self) -> Result<Postgres, ConfigError> {
        match self {
            Self::Socket { directory, port, user, database } => {
                Postgres::on_socket(directory, *port, user, database).map_err(ConfigError::Postgres)
            }
            Self::ConnectionFile(file) => {
                let read = read_private_file(file, LONGEST_CONNECTION).map_err(ConfigError::Connection)?;
                let not_text = || ConfigError::Postgres(EngineError("the connection string is no UTF-8".into()));
                let text = std::str::from_utf8(read.expose()).map_err(|_| not_text())?;
                Postgres::at(text.trim()).map_err(ConfigError::Postgres)
            }
        }
    }
}

impl std::fmt::Display for PostgresConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket { directory, port, database, .. } => {
                write!(f, "the database {database} of the PostgreSQL at {}, port {port}", directory.display())
            }
            Self::ConnectionFile(file) => write!(f, "the PostgreSQL that {} names", file.display()),
        }
    }
}

#[cfg(test)]
mod tests;
