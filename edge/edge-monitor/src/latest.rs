//! A value that changes, and who waits for a change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use event_listener::Event;

/// The latest value of something. Who was busy meanwhile sees the last one only.
#[derive(Debug)]
pub struct Latest<T> {
    value: Mutex<T>,
    changed: Event,
}

impl<T: PartialEq> Latest<T> {
    /// With this value.
    pub const fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Event::new() }
    }

    /// Sets it; nobody is woken where it is the same.
    pub fn set(&self, value: T) {
        let mut now = self.lock();
        if *now != value {
            *now = value;
            drop(now);
            self.changed.notify(usize::MAX);
        }
    }

    /// What `look` finds, now or after a change.
    pub async fn wait<F>(&self, look: impl Fn(&T) -> Option<F>) -> F {
        loop {
            let changed = self.changed.listen();
            if let Some(found) = look(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
