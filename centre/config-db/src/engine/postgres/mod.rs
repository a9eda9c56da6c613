//! The database in `PostgreSQL`: several processes may use one.
//!
//! Each group of writes is one transaction that holds the row of the newest revision. Whoever begins a group reads first what
//! others logged since its own last revision; NOTIFY tells processes that do not write. The server is trusted: connections are
//! not encrypted, so it is reached over a Unix socket or loopback.

mod connection;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchkey_group_commit::Change;
use smol::Timer;
use smol::future::FutureExt;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use self::connection::{Connection, NONE, Newest, Wake};
use super::{Copying, EachRow, Engine, EngineError, ForeignRow};

/// How long the server may take for one step.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many revisions the log goes back; a process that was cut off for longer must start anew.
const LOGGED: i64 = 10_000;

const SCHEMA: &str = "
    SELECT pg_advisory_xact_lock(7813264);
    CREATE TABLE IF NOT EXISTS config_db_row
        (part text NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (part, key));
    CREATE TABLE IF NOT EXISTS config_db_log
        (revision bigint NOT NULL, part text NOT NULL, key bytea NOT NULL, value bytea, PRIMARY KEY (revision, part, key));
    CREATE TABLE IF NOT EXISTS config_db_head (one boolean PRIMARY KEY CHECK (one), revision bigint NOT NULL);
    INSERT INTO config_db_head VALUES (true, 0) ON CONFLICT DO NOTHING;";

/// Keeps the database in `PostgreSQL`.
pub struct Postgres {
    config: Config,
    connection: Option<Connection>,
    /// The newest revision that this process knows.
    revision: i64,
    wake: Arc<OnceLock<Wake>>,
    newest: Newest,
}

impl Postgres {
    /// A database by its connection string, such as `host=/run/postgresql user=latchkey dbname=latchkey`. Its tables are made
    /// when there are none.
    pub fn at(connection_string: &str) -> Result<Self, EngineError> {
        let config: Config = connection_string.parse().map_err(|error: tokio_postgres::Error| {
            // Its text has no part of the string, which may hold a password.
            EngineError(format!("this is no connection string: {error}"))
        })?;
        Self::of(config)
    }

    /// A database by the Unix socket of its server.
    pub fn on_socket(directory: &Path, port: u16, user: &str, database: &str) -> Result<Self, EngineError> {
        if !directory.is_absolute() {
            return Err(EngineError(format!("the socket's directory {} is no absolute path", directory.display())));
        }
        let mut config = Config::new();
        config.host_path(directory).port(port).user(user).dbname(database);
        Self::of(config)
    }

    /// Nothing but a socket and loopback: passwords and entries would be readable on the way.
    fn of(config: Config) -> Result<Self, EngineError> {
        let is_local = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => name.parse().map_or(name == "localhost", |address: IpAddr| address.is_loopback()),
        };
        match config.get_hosts() {
            [] => return Err(EngineError("the connection string names no host; host=/run/postgresql is one".into())),
            hosts if !hosts.iter().all(is_local) => {
                return Err(EngineError(
                    "the connection is not encrypted: its host must be a socket's directory or a loopback address"
                        .into(),
                ));
            }
            _ => {}
        }
        Ok(Self { config, connection: None, revision: 0, wake: Arc::default(), newest: Newest::default() })
    }

    /// Does the first step of a transaction, on a connection that is made anew where it was lost.
    fn first_step<T>(
        &mut self,
        step: impl AsyncFnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if self.connection.as_ref().is_none_or(Connection::is_closed) {
            let open = Connection::open(&self.config, Arc::clone(&self.wake), &self.newest);
            self.connection = Some(smol::block_on(within(open))?);
        }
        self.step(step)
    }

    /// Does a step on the connection of the one before. After an error it is not used again: what became of its transaction,
    /// the next one sees.
    fn step<T>(&mut self, step: impl AsyncFnOnce(&Connection) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let lost = || EngineError("the connection to PostgreSQL was lost".into());
        let connection = self.connection.take().ok_or_else(lost)?;
        let done = smol::block_on(within(step(&connection)))?;
        self.connection = Some(connection);
        Ok(done)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.newest.store(NONE, std::sync::atomic::Ordering::SeqCst);
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// What a step gives, if it does not take too long.
async fn within<T>(step: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    let late = async {
        Timer::after(PATIENCE).await;
        Err(EngineError(format!("PostgreSQL did not answer within {} s", PATIENCE.as_secs())))
    };
    step.or(late).await
}

impl Engine for Postgres {
    fn load(&mut self, each: EachRow<'_>) -> Result<(), EngineError> {
        let (revision, rows) = self.first_step(async |connection| {
            connection
                .batch(&format!("BEGIN; {SCHEMA} COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                .await?;
            let revision = connection.revision("SELECT revision FROM config_db_head").await?;
            let rows = connection.rows("SELECT part, key, value FROM config_db_row", None).await?;
            connection.batch("COMMIT").await?;
            Ok((revision, rows))
        })?;
        for (part, key, value) in rows {
            each(&part, &key, value.as_deref().unwrap_or_default()).map_err(EngineError)?;
        }
        self.revision = revision;
        Ok(())
    }

    fn begin(&mut self) -> Result<Vec<ForeignRow>, EngineError> {
        let known = self.revision;
        let (revision, rows) = self.first_step(async |connection| {
            connection.batch("ROLLBACK; BEGIN").await?;
            let revision = connection.revision("SELECT revision FROM config_db_head FOR UPDATE").await?;
            if revision == known {
                return Ok((revision, Vec::new()));
            }
            if revision - known > LOGGED || revision < known {
                return Err(EngineError(format!(
                    "PostgreSQL is at revision {revision}, and this process at {known}: the log does not go that far; \
                     start this process anew"
                )));
            }
            let log = "SELECT part, key, value FROM config_db_log WHERE revision > $1 ORDER BY revision";
            Ok((revision, connection.rows(log, Some(known)).await?))
        })?;
        self.revision = revision;
        Ok(rows)
    }

    fn commit(&mut self, rows: &[Change]) -> Result<(), EngineError> {
        // Of two changes of one key the later wins, and PostgreSQL takes one.
        let rows: BTreeMap<(&str, &[u8]), Option<&[u8]>> =
            rows.iter().map(|Change { table, key, value }| ((*table, key.as_slice()), value.as_deref())).collect();
        let revision = self.revision + i64::from(!rows.is_empty());
        self.step(async |connection| {
            if !rows.is_empty() {
                connection.write(revision, revision - LOGGED, &rows).await?;
            }
            connection.batch("COMMIT").await
        })?;
        self.revision = revision;
        Ok(())
    }

    fn moment(&mut self) -> Result<Copying, EngineError> {
        Err(EngineError("a database in PostgreSQL is copied by pg_dump".into()))
    }

    fn on_foreign(&mut self, wake: Wake) {
        drop(self.wake.set(wake)); // a second one would be of the same writer
    }
}
