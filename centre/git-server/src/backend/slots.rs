//! How many runs there are at a time, of all callers and of one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use smol::Timer;
use smol::future::FutureExt;
use smol::lock::{Semaphore, SemaphoreGuardArc};

use super::{BackendError, Limits};

/// Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Slots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    all: Arc<Semaphore>,
    /// Of the callers that run or wait now.
    callers: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    waiting: AtomicU32,
}

/// The right to one run; free again when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _all: SemaphoreGuardArc,
    _caller: SemaphoreGuardArc,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Self {
        let all = Arc::new(Semaphore::new(limits.runs as usize));
        Self(Arc::new(Inner { limits, all, callers: Mutex::default(), waiting: AtomicU32::new(0) }))
    }

    /// Waits for a run. Whoever has all of their own waits for these, and holds up nobody else.
    pub(super) async fn take(&self, caller: &str) -> Result<Permit, BackendError> {
        let _place = Place::take(&self.0)?;
        let own = self.of(caller);
        let taken = async {
            let caller = own.acquire_arc().await;
            Ok(Permit { _all: self.0.all.acquire_arc().await, _caller: caller })
        };
        let late = async {
            Timer::after(self.0.limits.wait).await;
            Err(BackendError::Busy)
        };
        taken.or(late).await
    }

    fn of(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.0.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = callers.get(caller).and_then(Weak::upgrade) {
            return known;
        }
        callers.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.0.limits.runs_per_caller as usize));
        callers.insert(caller.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// A place among those who wait.
struct Place<'a>(&'a AtomicU32);

impl<'a> Place<'a> {
    fn take(inner: &'a Inner) -> Result<Self, BackendError> {
        let place = Self(&inner.waiting);
        // The place is given back by its drop where there is none left.
        if inner.waiting.fetch_add(1, SeqCst) < inner.limits.waiting { Ok(place) } else { Err(BackendError::Busy) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchkey_test_support::block_on;

    use super::*;

    #[test]
    fn one_caller_never_has_all_runs() {
        let limits =
            Limits { runs: 3, runs_per_caller: 2, waiting: 1, wait: Duration::from_millis(20), ..Limits::default() };
        let slots = Slots::new(limits);
        block_on(async {
            let first = slots.take("a").await.unwrap();
            let _second = slots.take("a").await.unwrap();
            assert!(matches!(slots.take("a").await, Err(BackendError::Busy)), "two of its own");
            let third = slots.take("b").await.unwrap();
            assert!(matches!(slots.take("c").await, Err(BackendError::Busy)), "three of all");
            drop(third);
            slots.take("c").await.unwrap();
            drop(first);
            slots.take("a").await.unwrap();
        });
    }
}
