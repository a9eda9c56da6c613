//! What is advertised, kept durably.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use latchkey_factory_plus::Uuid;
use latchkey_group_commit::{Change, OpenError, Store};

use crate::advertised::{Advertised, Services};
use crate::api::{Answer, Decided, MayAdvertise};

const TABLE: &str = "advertisements";

/// Keeps advertisements. Clones are one.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    store: Store,
    /// Held from the decision of a write until it can be seen.
    writing: smol::lock::Mutex<()>,
    services: RwLock<Services>,
}

impl Keeper {
    /// Opens the file, or makes it; `services` are those of the configuration.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, mut services: Services) -> Result<Self, OpenError> {
        let store = Store::open(path, &[TABLE], |_, key, value| {
            let service = key.try_into().map(Uuid::from_bytes).map_err(|_| "a key is no UUID")?;
            let advertised = serde_json::from_slice(value).map_err(|error| format!("{service}: {error}"))?;
            services.tell(service, advertised);
            Ok(())
        })?;
        let (writing, services) = (smol::lock::Mutex::new(()), RwLock::new(services));
        Ok(Self(Arc::new(Inner { store, writing, services })))
    }

    /// The durable file, for copies of one moment.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Looks at what is advertised.
    pub fn look<T>(&self, look: impl FnOnce(&Services) -> T) -> T {
        look(&self.0.services.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Advertises, and answers once that is durable. It goes on to its end whatever becomes of the future.
    pub async fn advertise(&self, may: MayAdvertise) -> Answer {
        let (keeper, (done, answer)) = (self.clone(), async_channel::bounded(1));
        smol::spawn(async move {
            let written = keeper.write(may).await;
            // Who has the answer may open the file anew.
            drop(keeper);
            // Nobody waits for it any more: it is done all the same.
            drop(done.send(written).await);
        })
        .detach();
        answer.recv().await.unwrap_or_else(|_| Answer::refused(500, "the write was given up"))
    }

    async fn write(&self, may: MayAdvertise) -> Answer {
        let _in_order = self.0.writing.lock().await;
        let Decided { new, answer } = self.look(|services| may.decide(services));
        if new.is_empty() {
            return answer;
        }
        if let Err(error) = self.0.store.write(new.iter().map(change).collect()).await {
            tracing::error!(%error, "Nothing was written");
            return Answer::refused(
                503,
                "nothing was written: the disk of the service does not take it; try again later",
            );
        }
        let mut services = self.0.services.write().unwrap_or_else(PoisonError::into_inner);
        for (service, advertised) in new {
            tracing::info!(%service, url = %advertised.url, "Advertised");
            services.tell(service, advertised);
        }
        answer
    }
}

fn change((service, advertised): &(Uuid, Advertised)) -> Change {
    Change::put(TABLE, *service.as_bytes(), serde_json::json!(advertised).to_string())
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper({})", self.0.store.path().display())
    }
}
