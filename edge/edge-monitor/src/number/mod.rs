//! Which number (`bdSeq`) a connection has: one more than the one before, also over restarts.

mod config_map;

use std::fmt;
use std::time::Duration;

use latchkey_sparkplug::BirthDeath;
use smol::Timer;
use smol::future::FutureExt as _;

pub use config_map::ConfigMapStore;

/// How long the store may take where a number is known without it: a birth must not wait for an API server that is away.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the number of the last connection is kept.
pub trait Store: Send + Sync + 'static {
    /// The number of the last connection; `None` where there was none.
    fn load(&self) -> impl Future<Output = Result<Option<BirthDeath>, StoreError>> + Send;

    /// Keeps the number of the connection that is about to be made.
    fn save(&self, number: BirthDeath) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why a store cannot be used: what happened, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// Gives each connection its number.
#[derive(Debug)]
pub struct Numbers<S> {
    store: S,
    /// The last one that was given.
    last: Option<BirthDeath>,
    /// Whether the store has an older one, because it was away.
    unsaved: bool,
}

/// A number for one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The number.
    pub number: BirthDeath,
    /// Why it is not kept, if so: it may come again after a restart.
    pub unsaved: Option<StoreError>,
}

impl<S: Store> Numbers<S> {
    /// Those that follow what `store` has.
    pub const fn new(store: S) -> Self {
        Self { store, last: None, unsaved: false }
    }

    /// The number of the next connection, kept before it is used.
    ///
    /// # Errors
    /// The store cannot be read, and this program has made no connection yet: there is no number to go on from.
    pub async fn take(&mut self) -> Result<Taken, StoreError> {
        let Some(last) = self.last else {
            let number = self.store.load().await?.map_or(BirthDeath::default(), BirthDeath::next);
            return Ok(self.taken(number, self.store.save(number).await.err()));
        };
        let unsaved = self.unsaved;
        let asking = async {
            // Another monitor of this cluster may have connected meanwhile, as while one takes the place of another.
            let stored = self.store.load().await?;
            let number = stored.filter(|_| !unsaved).unwrap_or(last).next();
            Ok((number, self.store.save(number).await.err()))
        };
        let late = async {
            Timer::after(PATIENCE).await;
            Err(StoreError(format!("no answer within {} s", PATIENCE.as_secs())))
        };
        match asking.or(late).await {
            Ok((number, error)) => Ok(self.taken(number, error)),
            Err(error) => Ok(self.taken(last.next(), Some(error))),
        }
    }

    fn taken(&mut self, number: BirthDeath, error: Option<StoreError>) -> Taken {
        (self.last, self.unsaved) = (Some(number), error.is_some());
        Taken { number, unsaved: error }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Fake: a store in memory that can be away, or hang.
    #[derive(Debug, Clone, Default)]
    struct FakeStore(Arc<Mutex<State>>);

    #[derive(Debug, Default)]
    struct State {
        kept: Option<u8>,
        readable: bool,
        writable: bool,
        hangs: bool,
    }

    impl FakeStore {
        fn with(kept: Option<u8>) -> Self {
            Self(Arc::new(Mutex::new(State { kept, readable: true, writable: true, hangs: false })))
        }

        fn set(&self, readable: bool, writable: bool) {
            let mut state = self.0.lock().unwrap();
            (state.readable, state.writable) = (readable, writable);
        }
    }

    impl Store for FakeStore {
        async fn load(&self) -> Result<Option<BirthDeath>, StoreError> {
            if self.0.lock().unwrap().hangs {
                std::future::pending::<()>().await;
            }
            let state = self.0.lock().unwrap();
            if state.readable { Ok(state.kept.map(BirthDeath::new)) } else { Err(StoreError("away".into())) }
        }

        async fn save(&self, number: BirthDeath) -> Result<(), StoreError> {
            let mut state = self.0.lock().unwrap();
            if !state.writable {
                return Err(StoreError("forbidden".into()));
            }
            state.kept = Some(number.number());
            Ok(())
        }
    }

    fn take(numbers: &mut Numbers<FakeStore>) -> (u8, bool) {
        let taken = smol::block_on(numbers.take()).unwrap();
        (taken.number.number(), taken.unsaved.is_none())
    }

    #[test]
    fn numbers_go_on_over_restarts_and_wrap() {
        let store = FakeStore::with(None);
        let mut numbers = Numbers::new(store.clone());
        assert_eq!([take(&mut numbers), take(&mut numbers)], [(0, true), (1, true)]);
        assert_eq!(store.0.lock().unwrap().kept, Some(1));
        // Another process.
        let mut numbers = Numbers::new(store.clone());
        assert_eq!(take(&mut numbers), (2, true));
        let mut numbers = Numbers::new(FakeStore::with(Some(255)));
        assert_eq!(take(&mut numbers), (0, true));
    }

    #[test]
    fn without_a_store_the_first_waits_and_later_ones_go_on() {
        let store = FakeStore::with(Some(7));
        store.set(false, false);
        let mut numbers = Numbers::new(store.clone());
        assert!(smol::block_on(numbers.take()).is_err());
        store.set(true, true);
        assert_eq!(take(&mut numbers), (8, true));
        store.set(false, false);
        assert_eq!([take(&mut numbers), take(&mut numbers)], [(9, false), (10, false)]);
        // It has 8, and is not believed; afterwards it is.
        store.set(true, true);
        assert_eq!(take(&mut numbers), (11, true));
        store.0.lock().unwrap().kept = Some(20);
        assert_eq!(take(&mut numbers), (21, true));
        // Readable, and not writable.
        store.set(true, false);
        assert_eq!([take(&mut numbers), take(&mut numbers)], [(22, false), (23, false)]);
    }

    #[test]
    fn a_store_that_hangs_does_not_hold_up_a_connection() {
        let store = FakeStore::with(Some(7));
        let mut numbers = Numbers::new(store.clone());
        take(&mut numbers);
        store.0.lock().unwrap().hangs = true;
        let taken = latchkey_test_support::block_on(numbers.take()).unwrap();
        assert_eq!(taken.number, BirthDeath::new(9));
        assert!(taken.unsaved.unwrap().to_string().contains("2 s"));
    }
}
