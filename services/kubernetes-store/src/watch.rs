//! Follows records and documents. A watch that ends begins anew by itself, with a listing where the API server has forgotten what
//! came since (410): kube's watcher does that. What it says goes into the caches, and who follows is told.

use crate::error::{ApiCode, code_of, elsewhere, one_line};
use crate::objects::{called, node_of, nodes, revision_of};
use crate::records::read_one;
use crate::store::{Shared, Watched, too_many};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::NAMESPACE;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Objects of one answer to a listing.
pub(crate) const PAGE: u32 = 200;
/// Seconds until a watch is asked for anew: so long may one that is dead without saying so go unnoticed, and some seconds more.
const WATCH_SECONDS: u32 = 30;

/// Pauses between attempts that fail: soon at first, and never so long that a server which is back goes unnoticed.
#[derive(Debug, Default)]
pub(crate) struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        const MOST: u32 = 5;
        let pause = Duration::from_millis(125 << self.0);
        self.0 = (self.0 + 1).min(MOST);
        Some(pause)
    }
}

impl Pauses {
    /// The pause before a watch is asked for more. The beginning of a listing is no answer yet, nor are its first pages its end.
    fn after<K>(&mut self, said: &watcher::Result<Event<K>>) -> Option<Duration> {
        match said {
            Err(_) => self.next(),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {
                *self = Self::default();
                None
            }
        }
    }
}

/// A watch with its pauses. kube's own way to pause takes the beginning of a listing for a success: an API server that is too slow to
/// list would be asked for eight listings a second.
pub(crate) struct Events<K> {
    watch: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    pauses: Pauses,
    until: Option<Instant>,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Events<K> {
    pub(crate) fn of(api: Api<K>, config: watcher::Config) -> Self {
        Self { watch: Box::pin(watcher(api, config)), pauses: Pauses::default(), until: None }
    }

    /// What it says next; who stops waiting misses nothing.
    pub(crate) async fn next(&mut self) -> Option<watcher::Result<Event<K>>> {
        if let Some(until) = self.until {
            sleep_until(until).await;
        }
        let said = self.watch.next().await?;
        self.until = self.pauses.after(&said).map(|pause| Instant::now() + pause);
        Some(said)
    }
}

/// Whether it says only that a listing is asked for: nothing has come from the API server yet.
pub(crate) fn is_begin<K>(said: &watcher::Result<Event<K>>) -> bool {
    matches!(said, Ok(Event::Init))
}

pub(crate) fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS)
}

/// Keeps the records as the API server has them. Never ends by itself.
pub(crate) async fn follow_records(shared: Arc<Shared>) {
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let mut events = Events::of(api, config());
    let mut listing = Listing::default();
    while let Some(event) = events.next().await {
        let begins = is_begin(&event);
        let taken = match event {
            Ok(event) => take_record(&shared, event, &mut listing).await,
            Err(error) => Err(watch_failed("attestednodes", &error)),
        };
        if begins {
            continue;
        }
        let news = shared.cache().has_news();
        shared.note(Watched::Records, taken.err());
        if news {
            shared.tell(Watched::Records);
        }
    }
}

/// A listing that is under way.
#[derive(Default)]
struct Listing {
    objects: Vec<crate::objects::NodeObject>,
    /// The newest revision known when it began.
    begun: u64,
}

async fn take_record(shared: &Shared, event: Event<DynamicObject>, listing: &mut Listing) -> Result<(), StoreError> {
    match event {
        Event::Init => *listing = Listing { objects: Vec::new(), begun: shared.cache().newest() },
        Event::InitApply(object) => {
            if listing.objects.len() >= crate::cache::MAX_NODES {
                return Err(too_many());
            }
            listing.objects.push(node_of(object));
        }
        Event::InitDone => {
            let Listing { objects, begun } = std::mem::take(listing);
            let unsure = shared.cache().replace(objects, begun).map_err(|_| too_many())?;
            for ek in unsure {
                read_one(shared, &ek).await?;
            }
        }
        Event::Apply(object) => shared.take_over(node_of(object))?,
        Event::Delete(object) => {
            let name = object.metadata.name.clone().unwrap_or_default();
            let revision = revision_of(&called("attestednodes", &name), &object.metadata)?;
            shared.cache().delete(&name, revision);
        }
    }
    Ok(())
}

/// Keeps a document as the API server has it. Never ends by itself. Each is watched by its name, so that the service needs no right
/// to read whatever else lies in the namespace.
pub(crate) async fn follow_document(shared: Arc<Shared>, name: &'static str) {
    let api: Api<ConfigMap> = Api::namespaced(shared.client.clone(), NAMESPACE);
    let config = config().fields(&format!("metadata.name={name}"));
    let mut events = Events::of(api, config);
    while let Some(event) = events.next().await {
        let begins = is_begin(&event);
        let taken = match event {
            Ok(event) => {
                shared.documents().take(name, event);
                Ok(())
            }
            Err(error) => Err(watch_failed(&format!("configmaps/{name}"), &error)),
        };
        if begins {
            continue;
        }
        shared.note(Watched::Document(name), taken.err());
        shared.tell(Watched::Document(name));
    }
}

pub(crate) fn watch_failed(about: &str, error: &watcher::Error) -> StoreError {
    let code = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => code_of(error),
        watcher::Error::WatchError(status) => code_of(&kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => ApiCode::AnswerUnusable,
    };
    elsewhere(about, code, one_line(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses_after(said: &[watcher::Result<Event<ConfigMap>>]) -> Vec<Option<u128>> {
        let mut pauses = Pauses::default();
        said.iter().map(|said| pauses.after(said).map(|pause| pause.as_millis())).collect()
    }

    #[test]
    fn listings_that_fail_are_asked_for_less_and_less_until_one_comes_to_its_end() {
        let fails = || Err(watcher::Error::NoResourceVersion);
        let object = ConfigMap::default;
        let said = [Ok(Event::Init), fails(), Ok(Event::Init), Ok(Event::InitApply(object())), fails()];
        assert_eq!(pauses_after(&said), [None, Some(125), None, None, Some(250)]);
        let said = [fails(), fails(), fails(), fails(), fails(), fails(), fails()];
        assert_eq!(pauses_after(&said), [125, 250, 500, 1000, 2000, 4000, 4000].map(Some));
        let said = [fails(), fails(), Ok(Event::InitDone), fails(), fails(), Ok(Event::Apply(object())), fails()];
        assert_eq!(pauses_after(&said), [Some(125), Some(250), None, Some(125), Some(250), None, Some(125)]);
    }
}
