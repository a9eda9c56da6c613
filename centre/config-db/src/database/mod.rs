//! The database: reads from memory, writes in groups, and whoever is told of changes.
//!
//! Two models are kept, which share all values: *shown* is what was made durable, and what reads see; *ahead*, the writer's own,
//! has the group that is on its way to the disk, too. A group becomes shown as a whole, with its notifications, under one lock,
//! before any of its writes is acknowledged.

mod reads;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle};

use async_channel::{Sender, TrySendError, bounded};

use crate::access::{Caller, Permitted};
use crate::engine::{Engine, EngineError};
use crate::operation::{Answer, Outcome, Read, Refusal, Write};
use crate::watch::{Subscription, Target, Watchers};
use crate::{Model, Uuid};
use writer::{Order, Writer};

/// How many writes may wait; more are refused.
const WAITING_WRITES: usize = 4096;

/// A running database; clones are handles of one.
#[derive(Clone)]
pub struct ConfigDb {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
    /// Where [`ConfigDb::copy_beside`] leaves copies; none where the engine has no file.
    copy: Option<PathBuf>,
}

/// What the writer publishes.
#[derive(Default)]
pub(crate) struct Shared(RwLock<Shown>);

/// The model that is shown, and who is told when it changes.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) model: Model,
    pub(crate) watchers: Watchers,
}

/// Why a database does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its engine cannot read or write.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// The system has no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl ConfigDb {
    /// Loads a database, makes what every database has, and starts to write.
    pub fn start(engine: impl Engine) -> Result<Self, StartError> {
        let (orders, waiting) = bounded(WAITING_WRITES);
        let shared = Arc::new(Shared::default());
        let copy = engine.file().map(latchkey_group_commit::copy_place);
        let mut writer = Writer::load(engine, Arc::clone(&shared))?;
        let wake = orders.downgrade();
        writer.on_foreign(Box::new(move || {
            // Where the queue is full, the next group sees what is foreign.
            if let Some(orders) = wake.upgrade() {
                drop(orders.try_send(Order::Foreign));
            }
        }));
        let thread = thread::Builder::new().name("config-db".into()).spawn(move || writer.run(&waiting))?;
        Ok(Self { inner: Arc::new(Inner { shared, orders, thread: Some(thread), copy }) })
    }

    /// Reads from memory.
    pub fn read(&self, caller: &Caller, read: &Read) -> Result<Answer, Refusal> {
        let shown = self.inner.shared.read();
        reads::read(&shown.model, &Permitted::check(&shown.model, caller, read)?)
    }

    /// Writes; the outcome is durable, and what reads see.
    ///
    /// The order of writes is that of the calls. A write that was handed over is done, whatever becomes of the future.
    pub fn write(&self, caller: Caller, write: Write) -> impl Future<Output = Result<Outcome, Refusal>> + Send + use<> {
        let (done, outcome) = bounded(1);
        let handed_over =
            self.inner.orders.try_send(Order::Write { caller, write, done }).map_err(|error| match error {
                TrySendError::Full(_) => {
                    Refusal::Unavailable(format!("{WAITING_WRITES} writes wait already; try again later"))
                }
                TrySendError::Closed(_) => closed(),
            });
        async move {
            handed_over?;
            outcome.recv().await.unwrap_or_else(|_| Err(closed()))
        }
    }

    /// Tells of a resource, now and after each change. The subscription is known by `uuid` in its frames.
    pub fn subscribe(&self, uuid: Uuid, target: Target) -> Subscription {
        Subscription::begin(Arc::clone(&self.inner.shared), uuid, target)
    }

    /// Copies the database to a file, as it is at one moment, while writes go on.
    pub async fn copy_to(&self, path: impl Into<PathBuf>) -> Result<(), EngineError> {
        let (done, copied) = bounded(1);
        let lost = || EngineError("the database is closed".into());
        self.inner.orders.send(Order::Copy { path: path.into(), done }).await.map_err(|_| lost())?;
        copied.recv().await.unwrap_or_else(|_| Err(lost()))
    }

    /// The same, to the place beside the file that [`latchkey_group_commit::copy_place`] says.
    pub async fn copy_beside(&self) -> Result<(), EngineError> {
        let no_file = || EngineError("this database is kept by PostgreSQL: back it up with pg_dump".into());
        self.copy_to(self.inner.copy.clone().ok_or_else(no_file)?).await
    }
}

fn closed() -> Refusal {
    Refusal::Unavailable("the database is closed".into())
}

impl Shared {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Shown> {
        // Whoever panicked while publishing left a model whose every row is whole.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Shown> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConfigDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDb").finish_non_exhaustive()
    }
}

impl Drop for Inner {
    /// What was handed over is written first.
    fn drop(&mut self) {
        self.orders.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join()); // a panic of it was printed already
        }
    }
}
