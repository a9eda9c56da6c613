//! Follows records and documents. What the watches say goes into the caches, and who follows is told.

use crate::cache::{MAX_NODES, Moment};
use crate::connection::in_time;
use crate::error::{failed, is_forbidden, of_api};
use crate::naming::Claims;
use crate::objects::{NodeObject, called, node_of, nodes, revision_of};
use crate::records::read;
use crate::store::{Shared, Watched, too_many};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::Event;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::NAMESPACE;
use latchkey_kubernetes_client::{ApiError, NotTaken, Objects, PAGE, Sink, listen};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everything is listed anew after this: a third of the time for which it is good by itself.
const AGAIN: Duration = Duration::from_secs(10);
/// But listings that take long take no more than a third of the time.
const SHARE: u32 = 2;

/// Keeps the records as the API server has them. Never ends by itself.
pub(crate) async fn follow_records(shared: Arc<Shared>) {
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let (labels, fields) = (String::new(), String::new());
    let objects = Objects { about: "attestednodes", api, labels, fields, page: PAGE, most: MAX_NODES };
    listen(objects, Records { shared, listing: Vec::new(), begun: Moment::default(), took: Duration::ZERO }).await;
}

struct Records {
    shared: Arc<Shared>,
    /// What a listing has that is under way.
    listing: Vec<NodeObject>,
    /// Before it was asked for.
    begun: Moment,
    /// How long the last one took.
    took: Duration,
}

impl Records {
    async fn take_over(&mut self, event: Event<DynamicObject>) -> Result<(), StoreError> {
        let shared = &self.shared;
        match event {
            Event::Init => (self.listing, self.begun) = (Vec::new(), shared.cache().moment()),
            Event::InitApply(object) => {
                if self.listing.len() >= MAX_NODES {
                    return Err(too_many());
                }
                self.listing.push(node_of(object));
            }
            Event::InitDone => shared.take_listing(std::mem::take(&mut self.listing), self.begun).await?,
            Event::Apply(object) => drop(shared.cache().heard(node_of(object)).map_err(|_| too_many())?),
            Event::Delete(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let revision = revision_of(&called("attestednodes", &name), &object.metadata)?;
                shared.cache().deleted(&name, revision);
            }
        }
        Ok(())
    }
}

impl Sink<DynamicObject> for Records {
    async fn take(&mut self, event: Event<DynamicObject>, asked: Instant) -> Result<(), NotTaken> {
        let is_complete = matches!(event, Event::InitDone);
        let taken = self.take_over(event).await;
        if is_complete && taken.is_ok() {
            self.took = asked.elapsed();
            self.shared.note_listed(Watched::Records, asked);
        }
        self.shared.records_heard.notify_waiters();
        if self.shared.cache().has_news() {
            self.shared.tell(Watched::Records);
        }
        taken.map_err(|error| {
            self.shared.note_problem(Watched::Records, error);
            NotTaken
        })
    }

    fn failed(&mut self, failure: ApiError) {
        self.shared.note_problem(Watched::Records, of_api(failure));
    }

    fn again(&self) -> Duration {
        AGAIN.max(self.took * SHARE)
    }

    /// Whoever has written a record waits for the watch.
    fn hears_on(&self) -> bool {
        true
    }
}

impl Shared {
    /// Takes over a listing of all records that the watch begins with, and that was asked for then.
    async fn take_listing(&self, objects: Vec<NodeObject>, asked: Moment) -> Result<(), StoreError> {
        let unsure = self.cache().listed(objects, asked).map_err(|_| too_many())?;
        for ek in unsure {
            let asked = self.cache().moment();
            match read(self, &ek).await? {
                // What it claims that is new, the watch tells next: it would wait here for itself.
                Some(object) if !self.cache().naming().knows(&Claims::of(&object)) => {}
                Some(object) => drop(self.take_over(object, asked).await?),
                None => self.cache().absent(ek, asked),
            }
        }
        Ok(())
    }
}

/// Keeps a document as the API server has it. Never ends by itself. Each is watched by its name, so that the service needs no right
/// to read whatever else lies in the namespace.
pub(crate) async fn follow_document(shared: Arc<Shared>, name: &'static str) {
    let api: Api<ConfigMap> = Api::namespaced(shared.client.clone(), NAMESPACE);
    let fields = format!("metadata.name={name}");
    let objects = Objects { about: "configmaps", api, labels: String::new(), fields, page: PAGE, most: 1 };
    listen(objects, Document { shared, name, listing: None, read_at: 0 }).await;
}

struct Document {
    shared: Arc<Shared>,
    name: &'static str,
    /// What a listing has that is under way.
    listing: Option<ConfigMap>,
    /// The revision of what was read after the last one: the watch begins before it.
    read_at: u64,
}

/// 0 where there is none.
fn revision(map: &ConfigMap) -> u64 {
    map.metadata.resource_version.as_deref().and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

impl Document {
    /// The document as etcd has it. A listing is what the API server remembers, and another etcd in the place of its own is not noticed
    /// there. By the rights of an earlier chart it can only be listed: then that counts.
    async fn read(&mut self) -> Result<Option<ConfigMap>, StoreError> {
        let listed = self.listing.take();
        let about = format!("configmaps/{}", self.name);
        let api: Api<ConfigMap> = Api::namespaced(self.shared.client.clone(), NAMESPACE);
        let read = async { api.get_opt(self.name).await.map_err(|error| failed(&about, &error)) };
        let map = match in_time(&about, read).await {
            Err(error) if is_forbidden(&error) => listed,
            read => read?.filter(|map| map.metadata.name.as_deref() == Some(self.name)),
        };
        self.read_at = map.as_ref().map_or(0, revision);
        Ok(map)
    }
}

impl Sink<ConfigMap> for Document {
    async fn take(&mut self, event: Event<ConfigMap>, asked: Instant) -> Result<(), NotTaken> {
        let (shared, watched) = (Arc::clone(&self.shared), Watched::Document(self.name));
        // It was asked for by its name; a server that tells of another one says nothing of this one.
        let (name, read_at) = (self.name, self.read_at);
        let named = |map: &ConfigMap| map.metadata.name.as_deref() == Some(name);
        // What happened before it was read is told again.
        let is_news = |map: &ConfigMap| named(map) && revision(map) >= read_at;
        let is_complete = matches!(event, Event::InitDone);
        let changed = match event {
            Event::Init => {
                self.listing = None;
                false
            }
            Event::InitApply(map) if named(&map) => {
                self.listing = Some(map);
                false
            }
            Event::InitDone => {
                let read = self.read().await.map_err(|error| {
                    shared.note_problem(watched, error);
                    NotTaken
                })?;
                shared.documents().set(self.name, read)
            }
            Event::Apply(map) if is_news(&map) => shared.documents().set(self.name, Some(map)),
            Event::Delete(map) if is_news(&map) => shared.documents().set(self.name, None),
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => false,
        };
        if is_complete {
            shared.note_listed(watched, asked);
        }
        if changed {
            shared.tell(watched);
        }
        Ok(())
    }

    fn failed(&mut self, failure: ApiError) {
        let about = format!("configmaps/{}", self.name);
        self.shared.note_problem(Watched::Document(self.name), of_api(ApiError { about, ..failure }));
    }

    fn again(&self) -> Duration {
        AGAIN
    }
}
