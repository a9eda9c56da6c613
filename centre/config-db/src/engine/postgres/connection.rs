//! One connection, driven by a thread of its own.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use smol::Timer;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use super::socket::{Socket, connect};
use crate::engine::{EngineError, ForeignRow};

/// Says that another process wrote something.
pub(super) type Wake = Box<dyn Fn() + Send + Sync>;
/// Names the channel of NOTIFY.
const CHANNEL: &str = "config_db";
/// Between two attempts of a process that only reads to get its lost connection back.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Counts connections: the last one that was made asks for another one when it is lost.
pub(super) type Newest = Arc<AtomicU64>;
/// No connection is this one: the engine is gone.
pub(super) const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
}

impl Connection {
    pub(super) async fn open(config: &Config, wake: Arc<OnceLock<Wake>>, newest: &Newest) -> Result<Self, EngineError> {
        let (client, connection) = config.connect_raw(connect(config).await?, NoTls).await.map_err(failed)?;
        let number = newest.load(Ordering::SeqCst) + 1;
        let process = Arc::new(AtomicI32::new(0));
        let (process_there, newest_there) = (Arc::clone(&process), Arc::clone(newest));
        thread::Builder::new()
            .name("postgres".into())
            .spawn(move || {
                smol::block_on(async {
                    drive(connection, &wake, &process_there).await;
                    ask_again(&wake, || newest_there.load(Ordering::SeqCst) == number).await;
                });
            })
            .map_err(|error| EngineError(format!("cannot start a thread: {error}")))?;
        let connection = Self { client };
        // Whatever the server's default is, a commit is on the disk; and a dead peer's lock ends.
        let limits = "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = '15s'";
        connection.batch(&format!("{limits}; LISTEN {CHANNEL}")).await?;
        let id = connection.client.query_one("SELECT pg_backend_pid()", &[]).await.and_then(|row| row.try_get(0));
        process.store(id.map_err(failed)?, Ordering::SeqCst);
        newest.store(number, Ordering::SeqCst);
        Ok(connection)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn batch(&self, statements: &str) -> Result<(), EngineError> {
        self.client.batch_execute(statements).await.map_err(failed)
    }

    pub(super) async fn revision(&self, query: &str) -> Result<i64, EngineError> {
        self.client.query_one(query, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)
    }

    pub(super) async fn rows(&self, query: &str, after: Option<i64>) -> Result<Vec<ForeignRow>, EngineError> {
        let rows = match after {
            Some(revision) => self.client.query(query, &[&revision]).await,
            None => self.client.query(query, &[]).await,
        };
        let read = |row: tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        rows.and_then(|rows| rows.into_iter().map(read).collect()).map_err(failed)
    }

    /// Writes rows, logs them as a revision, and tells the other processes once this is committed.
    pub(super) async fn write(
        &self,
        revision: i64,
        forgotten: i64,
        rows: &BTreeMap<(&str, &[u8]), Option<&[u8]>>,
    ) -> Result<(), EngineError> {
        let parts: Vec<&str> = rows.keys().map(|(part, _)| *part).collect();
        let keys: Vec<&[u8]> = rows.keys().map(|(_, key)| *key).collect();
        let values: Vec<Option<&[u8]>> = rows.values().copied().collect();
        let write = "
            WITH change AS (SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS change (part, key, value)),
            logged AS (INSERT INTO config_db_log SELECT $4::bigint, part, key, value FROM change),
            removed AS (DELETE FROM config_db_row USING change WHERE change.value IS NULL
                AND config_db_row.part = change.part AND config_db_row.key = change.key),
            forgotten AS (DELETE FROM config_db_log WHERE revision <= $5::bigint),
            head AS (UPDATE config_db_head SET revision = $4::bigint)
            INSERT INTO config_db_row SELECT part, key, value FROM change WHERE value IS NOT NULL
                ON CONFLICT (part, key) DO UPDATE SET value = excluded.value";
        self.client.execute(write, &[&parts, &keys, &values, &revision, &forgotten]).await.map_err(failed)?;
        self.batch(&format!("NOTIFY {CHANNEL}")).await
    }
}

/// Moves bytes until the connection ends, and wakes the writer for each notification but those of its own server `process`.
async fn drive(
    mut connection: tokio_postgres::Connection<Socket, tokio_postgres::tls::NoTlsStream>,
    wake: &OnceLock<Wake>,
    process: &AtomicI32,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && notification.process_id() != process.load(Ordering::SeqCst)
            && let Some(wake) = wake.get()
        {
            wake();
        }
    }
}

/// Wakes the writer until it has another connection: one that writes nothing would not notice that this one was lost.
async fn ask_again(wake: &OnceLock<Wake>, is_newest: impl Fn() -> bool) {
    while is_newest() {
        if let Some(wake) = wake.get() {
            wake();
        }
        Timer::after(TRY_AGAIN).await;
    }
}

/// The server's own words, which [`tokio_postgres::Error`] keeps to itself.
#[expect(clippy::needless_pass_by_value, reason = "it ends errors of calls")]
fn failed(error: tokio_postgres::Error) -> EngineError {
    let reason = match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    EngineError(format!("PostgreSQL: {reason}"))
}
