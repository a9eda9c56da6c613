//! The store as a whole: a connection, what is known, and who hears of changes.

use crate::beneath::Unheard;
use crate::cache::{Cache, Moment};
use crate::connection::{certificate_ends, in_time, wait};
use crate::documents::{DocumentCache, FOLLOWED};
use crate::error::{ApiCode, ApiStoreCode, elsewhere, is_unanswered, of_api};
use crate::events::{Refusals, write_events};
use crate::lease::ControlPlaneLease;
use crate::naming::Claims;
use crate::objects::{NodeObject, node_called};
use crate::requests::RequestWatch;
use crate::status::{Statuses, write_statuses};
use crate::sweep::sweep;
use crate::watch;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::NAMESPACE;
use latchkey_kubernetes_client::Connection;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long the first listing may take.
const FIRST_LISTING: Duration = Duration::from_secs(30);

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
    /// Told whenever the watch of the records says something.
    pub(crate) records_heard: Notify,
    /// When this machine's clock was last seen to be the API server's.
    pub(crate) clock_checked: Mutex<Option<Instant>>,
    pub(crate) unheard: Unheard,
    pub(crate) statuses: Statuses,
    pub(crate) refusals: Refusals,
    pub(crate) requests: RequestWatch,
    heard: Mutex<BTreeMap<Watched, Heard>>,
    /// Told whenever something else was heard.
    more_heard: Condvar,
    on_records: Mutex<Option<OnChange>>,
    on_documents: Mutex<Option<OnChange>>,
}

/// How something is known.
#[derive(Debug, Default)]
struct Heard {
    /// When its last complete listing was asked for.
    as_of: Option<Instant>,
    /// Why there is no later one.
    problem: Option<StoreError>,
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

/// What a service needs to start.
fn needed() -> impl Iterator<Item = Watched> {
    [Watched::Records].into_iter().chain(FOLLOWED.into_iter().map(Watched::Document))
}

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
        let connection = Connection::open(kubeconfig).map_err(of_api)?;
        let shared = Arc::new(Shared::of(connection.client()));
        let mut following = vec![connection.handle().spawn(watch::follow_records(Arc::clone(&shared)))];
        for name in FOLLOWED {
            following.push(connection.handle().spawn(watch::follow_document(Arc::clone(&shared), name)));
        }
        following.push(connection.handle().spawn(sweep(Arc::clone(&shared))));
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

    /// When what is known of the records was asked for. What happened before that is known.
    pub fn records_as_of(&self) -> Option<Instant> {
        self.shared.as_of([Watched::Records])
    }

    /// Whether nobody answers in the place of the API server and its etcd.
    pub fn is_unanswered(&self) -> bool {
        self.shared.is_unanswered()
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
    /// What nothing has filled yet.
    pub(crate) fn of(client: Client) -> Self {
        Self {
            client,
            cache: Mutex::default(),
            documents: Mutex::default(),
            records_heard: Notify::new(),
            clock_checked: Mutex::default(),
            unheard: Unheard::default(),
            statuses: Statuses::default(),
            refusals: Refusals::default(),
            requests: RequestWatch::default(),
            heard: Mutex::default(),
            more_heard: Condvar::new(),
            on_records: Mutex::default(),
            on_documents: Mutex::default(),
        }
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.cache)
    }

    pub(crate) fn documents(&self) -> MutexGuard<'_, DocumentCache> {
        lock(&self.documents)
    }

    /// An object that the API server answered with to what was asked then, once the watch has told of all that it claims:
    /// [`ApiStoreCode::RecordUnheard`] if it does not in time.
    pub(crate) async fn take_over(&self, object: NodeObject, asked: Moment) -> Result<NodeObject, StoreError> {
        self.until_known(&object).await?;
        let news = self.cache().answered(object.clone(), asked).map_err(|_| too_many())?;
        if news {
            self.tell(Watched::Records);
        }
        Ok(object)
    }

    /// Until the watch has told of all that an object claims, not longer than a request may take.
    pub(crate) async fn until_known(&self, object: &NodeObject) -> Result<(), StoreError> {
        // What cannot be used claims nothing that has to be waited for.
        let NodeObject::Record(record, ..) = object else { return Ok(()) };
        let about = node_called(&record.ek_sha256);
        in_time(&about, self.until_told(&Claims::of(object))).await.map_err(|_| {
            self.unheard.note(record.ek_sha256);
            elsewhere(&about, ApiStoreCode::RecordUnheard, "the API server answers with it, and does not tell of it")
        })
    }

    async fn until_told(&self, claims: &Claims) -> Result<(), StoreError> {
        loop {
            let mut heard = pin!(self.records_heard.notified());
            // Before it is looked: what is heard meanwhile is not missed.
            heard.as_mut().enable();
            if self.cache().naming().knows(claims) {
                return Ok(());
            }
            heard.await;
        }
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

    /// There is a complete listing, which was asked for then: whatever was wrong before is not.
    pub(crate) fn note_listed(&self, what: Watched, asked: Instant) {
        let mut heard = lock(&self.heard);
        let known = heard.entry(what).or_default();
        known.as_of = Some(asked);
        if known.problem.take().is_some() {
            tracing::info!(watched = ?what, "The API server tells of this again");
        }
        self.more_heard.notify_all();
    }

    /// Nothing is heard of something.
    pub(crate) fn note_problem(&self, what: Watched, error: StoreError) {
        let mut heard = lock(&self.heard);
        let known = heard.entry(what).or_default();
        if known.problem.as_ref().is_none_or(|before| before.to_string() != error.to_string()) {
            tracing::error!(%error, watched = ?what, "The API server does not tell of this; what is known stays");
        }
        known.problem = Some(error);
        self.more_heard.notify_all();
    }

    /// What is wrong with the watches.
    pub(crate) fn problem(&self) -> Option<String> {
        let of_watch = lock(&self.heard).values().find_map(|heard| heard.problem.as_ref().map(ToString::to_string));
        of_watch.or_else(|| self.unheard.problem().map(str::to_owned))
    }

    /// When the oldest of these listings was asked for; `None` before there are all of them.
    pub(crate) fn as_of(&self, what: impl IntoIterator<Item = Watched>) -> Option<Instant> {
        let heard = lock(&self.heard);
        let listed = what.into_iter().map(|what| heard.get(&what).and_then(|heard| heard.as_of));
        listed.min().flatten()
    }

    /// Whether nobody answers in the place of the API server and its etcd: not that something was refused, put off or done wrong.
    pub(crate) fn is_unanswered(&self) -> bool {
        let heard = lock(&self.heard);
        let problems = needed().map(|what| heard.get(&what).and_then(|heard| heard.problem.as_ref()));
        problems.into_iter().all(|problem| problem.is_some_and(is_unanswered))
    }

    pub(crate) fn check_listed(&self) -> Result<(), StoreError> {
        if self.cache().is_listed() {
            return Ok(());
        }
        Err(elsewhere("attestednodes", ApiCode::Unreachable, "the records were never listed"))
    }

    /// Until all are listed once, or one cannot be. An API server that asks for another try later (429) gets it: one that has just
    /// started does so until it has read what it stores.
    fn await_listings(&self) -> Result<(), StoreError> {
        let is_later = |error: &StoreError| matches!(error, StoreError::Elsewhere { reason, .. } if reason.code == ApiCode::TooManyRequests.as_str());
        let is_listed = |heard: &BTreeMap<Watched, Heard>| {
            needed().all(|what| heard.get(&what).is_some_and(|heard| heard.as_of.is_some()))
        };
        let pending = |heard: &mut BTreeMap<Watched, Heard>| {
            heard.values().filter_map(|heard| heard.problem.as_ref()).all(is_later) && !is_listed(heard)
        };
        let waited = self.more_heard.wait_timeout_while(lock(&self.heard), FIRST_LISTING, pending);
        let (mut heard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match heard.values_mut().find_map(|heard| heard.problem.take()) {
            Some(error) => Err(error),
            None if is_listed(&heard) => Ok(()),
            None => Err(elsewhere("attestednodes", ApiCode::TooSlow, "they were not listed in time")),
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
