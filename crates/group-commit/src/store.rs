//! The file for many tasks: one thread writes, and all that wait share one fsync.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::{Change, CopyError, DurableFile, Gathering, OpenError, WriteError, copy_place};
use async_channel::{Receiver, Sender, TrySendError, bounded};

/// How many writes may wait for the disk; more are refused.
pub const WAITING_WRITES: usize = 4096;
/// How many bytes of values share an fsync at most, so that one group does not hold the next for long.
const GROUP_BYTES: usize = 8 << 20;

/// A [`DurableFile`] that many tasks write. Clones are handles of one file; when the last one is gone, what waits is written
/// and the file is closed.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    tables: &'static [&'static str],
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Write(Write),
    Copy(PathBuf, Sender<Result<(), CopyError>>),
}

struct Write {
    changes: Vec<Change>,
    done: Sender<Result<(), WriteError>>,
}

impl Store {
    /// Opens or makes a file as [`DurableFile::open`] does, and starts its thread.
    pub fn open(
        path: impl AsRef<Path>,
        tables: &'static [&'static str],
        each: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        Self::of(DurableFile::open(path, tables, each)?)
    }

    /// The same of a file that is open already.
    pub fn of(file: DurableFile) -> Result<Self, OpenError> {
        let (path, tables) = (file.path().to_path_buf(), file.tables());
        let (orders, waiting) = bounded(WAITING_WRITES);
        let thread = thread::Builder::new().name("group-commit".into()).spawn(move || run(file, &waiting));
        let thread = Some(thread.map_err(OpenError::io("start a thread for", &path))?);
        Ok(Self { inner: Arc::new(Inner { path, tables, orders, thread }) })
    }

    /// Hands changes over, to be written all or none; the future ends once they are durable.
    ///
    /// The order of writes is that of the calls, whatever becomes of the futures: a caller that changes its memory and calls
    /// this under one lock has both in one order.
    pub fn write(&self, changes: Vec<Change>) -> impl Future<Output = Result<(), WriteError>> + Send + use<> {
        let handed_over = self.hand_over(changes);
        async move { handed_over?.recv().await.unwrap_or(Err(WriteError::Closed)) }
    }

    fn hand_over(&self, changes: Vec<Change>) -> Result<Receiver<Result<(), WriteError>>, WriteError> {
        changes.iter().try_for_each(|change| change.check(self.inner.tables))?;
        let (done, written) = bounded(1);
        match self.inner.orders.try_send(Order::Write(Write { changes, done })) {
            Ok(()) => Ok(written),
            Err(TrySendError::Full(_)) => Err(WriteError::Busy),
            Err(TrySendError::Closed(_)) => Err(WriteError::Closed),
        }
    }

    /// Copies the file to `path` (mode 0600; an existing file is replaced at the end): all that was handed over before the
    /// call and became durable, nothing of later calls. Writes go on meanwhile.
    pub async fn copy_to(&self, path: impl Into<PathBuf>) -> Result<(), CopyError> {
        let (done, copied) = bounded(1);
        self.inner.orders.send(Order::Copy(path.into(), done)).await.map_err(|_| CopyError::Closed)?;
        copied.recv().await.unwrap_or(Err(CopyError::Closed))
    }

    /// The same to [`copy_place`]: whoever asks for a copy over the network names no path.
    pub async fn copy_beside(&self) -> Result<(), CopyError> {
        self.copy_to(copy_place(self.path())).await
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.orders.close();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed already; whoever waits for a write learns that the store is closed.
            drop(thread.join());
        }
    }
}

/// The writer's life.
fn run(mut file: DurableFile, orders: &Receiver<Order>) {
    let mut gathering = Gathering::new();
    let mut next = orders.recv_blocking().ok();
    while let Some(order) = next.take() {
        match order {
            Order::Write(first) => next = write_group(&mut file, first, orders, &mut gathering),
            Order::Copy(path, done) => start_copy(&mut file, path, &done),
        }
        next = next.or_else(|| orders.recv_blocking().ok());
    }
}

/// Writes `first` and all writes that wait behind it, or are about to come; gives the order that is no write of this group.
fn write_group(
    file: &mut DurableFile,
    first: Write,
    orders: &Receiver<Order>,
    gathering: &mut Gathering,
) -> Option<Order> {
    gathering.begin();
    let mut changes = first.changes;
    let mut waiting = vec![first.done];
    let mut bytes = size(&changes);
    let mut next = None;
    while bytes < GROUP_BYTES
        && let Some(order) = gathering.next(orders, waiting.len())
    {
        match order {
            Order::Write(write) => {
                bytes += size(&write.changes);
                changes.extend(write.changes);
                waiting.push(write.done);
            }
            other @ Order::Copy(..) => {
                next = Some(other);
                break;
            }
        }
    }
    let began = Instant::now();
    let written = file.commit(&changes);
    gathering.written(waiting.len(), orders.len(), began.elapsed());
    for done in waiting {
        // Whoever no longer waits does not want to know.
        drop(done.try_send(written.clone()));
    }
    next
}

fn size(changes: &[Change]) -> usize {
    changes.iter().map(|change| change.key.len() + change.value.as_ref().map_or(0, Vec::len)).sum()
}

/// Takes the moment here, in the order of writes; the copying itself has a thread of its own.
fn start_copy(file: &mut DurableFile, path: PathBuf, done: &Sender<Result<(), CopyError>>) {
    let at = path.clone();
    let moment = file.moment().map_err(|error| CopyError::Storage(error.to_string()));
    let started = moment.and_then(|moment| {
        let done = done.clone();
        thread::Builder::new()
            .name("copy".into())
            .spawn(move || drop(done.try_send(moment.write_to(path))))
            .map_err(CopyError::io("start a thread for", at))
    });
    if let Err(error) = started {
        drop(done.try_send(Err(error)));
    }
}
