//! Follows records and documents. What the watches say goes into the caches, and who follows is told.

use crate::error::watch_failed;
use crate::objects::{called, node_of, nodes, revision_of};
use crate::records::read_one;
use crate::store::{Shared, Watched, too_many};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::Event;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::NAMESPACE;
use latchkey_kubernetes_client::{Events, config, is_begin};
use std::sync::Arc;

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
