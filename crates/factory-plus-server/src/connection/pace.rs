//! How long a connection may take for what it does, and what it does.
//!
//! Request by request, only numbers are stored; one timer per connection looks at them, once a second. A timer for each head and
//! each request would cost more than a small request itself.

use smol::Timer;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How exact the limits are.
const LOOK: Duration = Duration::from_secs(1);

/// Room for the last bytes, after the time of a request is over and that was answered.
const SLACK: Duration = Duration::from_secs(5);

/// How long each thing may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paces {
    /// Between two requests.
    pub(crate) idle: Duration,
    /// From the first byte of a head to its last.
    pub(crate) head: Duration,
    /// Without a byte taken by the peer.
    pub(crate) stall: Duration,
    /// Of a head, how many bytes there may be.
    pub(crate) head_bytes: usize,
}

/// Of one connection.
#[derive(Debug)]
pub(crate) struct Pace {
    started: Instant,
    paces: Paces,
    /// In milliseconds since `started`.
    deadline: AtomicU64,
    /// Since when the peer takes nothing, plus one; 0 while it does.
    stalled: AtomicU64,
    /// Nothing of the next head was read.
    between: AtomicBool,
    /// The body of the request was read to its end.
    body_read: AtomicBool,
    /// What was read while a head was due: hyper leaves no trace of a `Content-Length` beside a `Transfer-Encoding`.
    tap: Mutex<Tap>,
}

#[derive(Debug, Default)]
struct Tap {
    open: bool,
    bytes: Vec<u8>,
}

const NEVER: u64 = u64::MAX;

impl Pace {
    /// A connection that has just begun: a head is due.
    pub(crate) fn new(paces: Paces) -> Self {
        let pace = Self {
            started: Instant::now(),
            paces,
            deadline: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            between: AtomicBool::new(true),
            body_read: AtomicBool::new(true),
            tap: Mutex::new(Tap { open: true, bytes: Vec::new() }),
        };
        pace.due_in(paces.head);
        pace
    }

    /// The peer sent these bytes.
    pub(crate) fn received(&self, bytes: &[u8]) {
        if self.between.swap(false, AcqRel) {
            self.due_in(self.paces.head);
        }
        let mut tap = self.tap();
        if tap.open {
            let room = self.paces.head_bytes.saturating_sub(tap.bytes.len());
            tap.bytes.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }

    /// The peer took some bytes, or does not.
    pub(crate) fn sent(&self, taken: bool) {
        if taken {
            self.stalled.store(0, Release);
        } else if self.stalled.load(Acquire) == 0 {
            self.stalled.store(self.now() + 1, Release);
        }
    }

    /// A head was read, and with it perhaps all there is. It is answered within `time`.
    pub(crate) fn begin(&self, time: Duration, is_all: bool) {
        self.tap().open = false;
        self.between.store(false, Release);
        self.body_read.store(is_all, Release);
        self.due_in(time + SLACK);
    }

    /// What was read while this request's head was due.
    pub(crate) fn with_head<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.tap().bytes)
    }

    /// The request may take so long.
    pub(crate) fn allow(&self, time: Duration) {
        self.due_in(time + SLACK);
    }

    /// The body was read to its end.
    pub(crate) fn body_read(&self) {
        self.body_read.store(true, Release);
    }

    /// Whether the body was read to its end.
    pub(crate) fn is_body_read(&self) -> bool {
        self.body_read.load(Acquire)
    }

    /// The response is on its way: the next head may come.
    pub(crate) fn answered(&self) {
        {
            let mut tap = self.tap();
            tap.open = true;
            tap.bytes.clear();
        }
        self.between.store(true, Release);
        self.due_in(self.paces.idle);
    }

    /// Returns when something took too long.
    pub(crate) async fn overdue(&self) {
        loop {
            let now = self.now();
            let deadline = self.deadline.load(Acquire);
            let stalled = self.stalled.load(Acquire);
            let stall = u64::try_from(self.paces.stall.as_millis()).unwrap_or(NEVER);
            if now >= deadline || (stalled > 0 && now.saturating_sub(stalled) >= stall) {
                return;
            }
            Timer::after(LOOK.min(Duration::from_millis(deadline - now))).await;
        }
    }

    fn due_in(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(NEVER);
        self.deadline.store(self.now().saturating_add(time).min(NEVER - 1), Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    fn tap(&self) -> std::sync::MutexGuard<'_, Tap> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
