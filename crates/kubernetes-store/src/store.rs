//! The store as a whole: a connection, what is known, and who hears of changes.

use crate::cache::{Cache, TooMany};
use crate::claims::ClaimsSeen;
use crate::connection::{certificate_ends, wait};
use crate::documents::{DocumentCache, FOLLOWED};
use crate::error::{ApiCode, elsewhere, of_api};
use crate::events::{Refusals, write_events};
use crate::lease::ControlPlaneLease;
use crate::objects::NodeObject;
use crate::requests::RequestWatch;
use crate::status::{Statuses, write_statuses};
use crate::watch;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::NAMESPACE;
use latchkey_kubernetes_client::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long the first listing may take.
const FIRST_LISTING: Duration = Duration::from_secs(30);

/// Times that decide something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a claim whose machine has no record of what it claims is seen unchanged here before another machine gets that. Far
    /// longer than any request of a join may be under way.
    pub stale_claim: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { stale_claim: Duration::from_mins(10) }
    }
}

/// Who hears of changes: called often, and must not wait for anything.
pub type OnChange = Box<dyn Fn() + Send + Sync>;

/// A cluster in its API server.
pub struct KubernetesStore {
    shared: Arc<Shared>,
    lease: ControlPlaneLease,
    following: Mutex<Vec<JoinHandle<()>>>,
    connection: Connection,
}

/// What the watches fill.
pub(crate) struct Shared {
    pub(crate) client: Client,
    cache: Mutex<Cache>,
    documents: Mutex<DocumentCache>,
    pub(crate) claims: ClaimsSeen,
    pub(crate) statuses: Statuses,
    pub(crate) refusals: Refusals,
    pub(crate) requests: RequestWatch,
    progress: Mutex<Progress>,
    /// Told whenever the progress is another.
    progressed: Condvar,
    on_records: Mutex<Option<OnChange>>,
    on_documents: Mutex<Option<OnChange>>,
}

/// How far the watches are.
#[derive(Debug, Default)]
struct Progress {
    /// Why a watch does not go on.
    problems: BTreeMap<Watched, StoreError>,
    /// What was listed once.
    listed: BTreeSet<Watched>,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    Records,
    /// The `ConfigMap` of this name.
    Document(&'static str),
    /// Of this signer.
    Requests(&'static str),
}

/// How many there are.
const WATCHED: usize = 1 + FOLLOWED.len();

impl fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesStore").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl KubernetesStore {
    /// Connects by this kubeconfig, and waits until everything is listed once.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`] with an [`ApiCode`]: a service that knows nothing of the cluster does not start.
    pub fn open(kubeconfig: &Path) -> Result<Self, StoreError> {
        Self::open_with(kubeconfig, Timing::default())
    }

    /// The same with other times than the built-in ones.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(kubeconfig: &Path, timing: Timing) -> Result<Self, StoreError> {
        let connection = Connection::open(kubeconfig).map_err(of_api)?;
        let shared = Arc::new(Shared {
            client: connection.client(),
            cache: Mutex::default(),
            documents: Mutex::default(),
            claims: ClaimsSeen::new(timing.stale_claim),
            statuses: Statuses::default(),
            refusals: Refusals::default(),
            requests: RequestWatch::default(),
            progress: Mutex::default(),
            progressed: Condvar::new(),
            on_records: Mutex::default(),
            on_documents: Mutex::default(),
        });
        let mut following = vec![connection.handle().spawn(watch::follow_records(Arc::clone(&shared)))];
        for name in FOLLOWED {
            following.push(connection.handle().spawn(watch::follow_document(Arc::clone(&shared), name)));
        }
        following.push(connection.handle().spawn(write_statuses(Arc::clone(&shared))));
        following.push(connection.handle().spawn(write_events(Arc::clone(&shared))));
        let following = Mutex::new(following);
        let store = Self { shared, lease: ControlPlaneLease::default(), following, connection };
        store.shared.await_listings()?;
        Ok(store)
    }

    /// Who hears that records have changed, by whoever.
    pub fn on_records(&self, tell: OnChange) {
        *lock(&self.shared.on_records) = Some(tell);
    }

    /// Who hears that documents have changed, by whoever.
    pub fn on_documents(&self, tell: OnChange) {
        *lock(&self.shared.on_documents) = Some(tell);
    }

    /// When the certificate by which this service is known to the API server ends, in seconds since the Unix epoch; `None` where it is
    /// known by a token.
    pub fn certificate_ends(&self) -> Option<u64> {
        certificate_ends(&self.connection)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn shared_with_watches(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Another watch, that ends with this.
    pub(crate) fn also_follow(&self, watch: impl Future<Output = ()> + Send + 'static) {
        lock(&self.following).push(self.connection.handle().spawn(watch));
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits for what a request is answered, not longer than one may take.
    pub(crate) fn wait<T>(
        &self,
        about: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        wait(&self.connection, about, request)
    }

    pub(crate) fn lease(&self) -> &ControlPlaneLease {
        &self.lease
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.shared.client.clone(), NAMESPACE)
    }
}

impl Drop for KubernetesStore {
    fn drop(&mut self) {
        lock(&self.following).iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.cache)
    }

    pub(crate) fn documents(&self) -> MutexGuard<'_, DocumentCache> {
        lock(&self.documents)
    }

    /// An object that the API server answered with.
    pub(crate) fn take_over(&self, object: NodeObject) -> Result<(), StoreError> {
        let news = self.cache().apply(object).map_err(|TooMany| too_many())?;
        if news {
            self.tell(Watched::Records);
        }
        Ok(())
    }

    /// Tells who follows. Held by nobody meanwhile: who is told may ask at once.
    pub(crate) fn tell(&self, what: Watched) {
        let who = match what {
            Watched::Records => &self.on_records,
            Watched::Document(_) => &self.on_documents,
            Watched::Requests(_) => &self.requests.tell,
        };
        if let Some(tell) = &*lock(who) {
            tell();
        }
    }

    /// How a watch does: what is wrong with it, or that it goes on.
    pub(crate) fn note(&self, what: Watched, problem: Option<StoreError>) {
        let is_listed = match what {
            Watched::Records => self.cache().is_listed(),
            Watched::Document(name) => self.documents().is_listed(name),
            // Nobody waits for them at the start.
            Watched::Requests(_) => false,
        };
        let mut progress = lock(&self.progress);
        if is_listed {
            progress.listed.insert(what);
        }
        let before = progress.problems.remove(&what).map(|error| error.to_string());
        match (problem, before) {
            (Some(error), before) => {
                if before.is_none_or(|before| before != error.to_string()) {
                    tracing::error!(%error, watched = ?what, "The API server cannot be watched; what is known stays in use");
                }
                progress.problems.insert(what, error);
            }
            (None, Some(_)) => tracing::info!(watched = ?what, "The API server is watched again"),
            (None, None) => {}
        }
        self.progressed.notify_all();
    }

    /// What is wrong with the watches.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.progress).problems.values().next().map(ToString::to_string)
    }

    /// The same of one document, as an error for who asks for it.
    pub(crate) fn check_document(&self, name: &'static str) -> Result<(), StoreError> {
        match lock(&self.progress).problems.get(&Watched::Document(name)) {
            Some(StoreError::Elsewhere { path, reason, detail }) => {
                Err(StoreError::Elsewhere { path: path.clone(), reason: *reason, detail: detail.clone() })
            }
            Some(other) => Err(elsewhere(name, ApiCode::Unreachable, other.to_string())),
            None => Ok(()),
        }
    }

    pub(crate) fn check_listed(&self) -> Result<(), StoreError> {
        if self.cache().is_listed() {
            return Ok(());
        }
        Err(elsewhere("attestednodes", ApiCode::Unreachable, "the records were never listed"))
    }

    /// Until all are listed once, or one cannot be. An API server that asks for another try later (429) gets it from the watch: one that
    /// has just started does so until it has read what it stores.
    fn await_listings(&self) -> Result<(), StoreError> {
        let is_later = |error: &StoreError| matches!(error, StoreError::Elsewhere { reason, .. } if reason.code == ApiCode::TooManyRequests.as_str());
        let pending =
            |progress: &mut Progress| progress.problems.values().all(is_later) && progress.listed.len() < WATCHED;
        let waited = self.progressed.wait_timeout_while(lock(&self.progress), FIRST_LISTING, pending);
        let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match progress.problems.pop_first() {
            Some((_, error)) => Err(error),
            None if progress.listed.len() < WATCHED => {
                Err(elsewhere("attestednodes", ApiCode::TooSlow, "they were not listed in time"))
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn too_many() -> StoreError {
    elsewhere("attestednodes", ApiCode::TooManyObjects, format!("there are more than {}", crate::cache::MAX_NODES))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is changed under a lock is changed whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
