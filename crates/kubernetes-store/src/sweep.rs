//! What calls leave that were cut short, and who gives it back.

use crate::cache::Known;
use crate::connection::in_time;
use crate::error::{failed, is_absent, is_conflict};
use crate::naming::{RESERVES, is_provisional};
use crate::objects::{node_called, node_object, node_of, nodes};
use crate::store::Shared;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, PostParams, Preconditions};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked for what nobody gave back: whoever made it does so at once, unless it ends or is cut off.
const AGAIN: Duration = Duration::from_secs(10);
/// What stands reserved for so long is of a call that was cut short: each of its requests has some seconds.
const RESERVED: Duration = Duration::from_mins(1);

/// Deletes this very object, if it was not written since.
pub(crate) async fn give_back(shared: &Shared, ek: &EkDigest, metadata: &ObjectMeta) -> Result<(), StoreError> {
    let (api, asked): (Api<DynamicObject>, _) =
        (Api::all_with(shared.client.clone(), &nodes()), shared.cache().moment());
    let ObjectMeta { uid, resource_version, .. } = metadata.clone();
    let preconditions = Some(Preconditions { uid, resource_version });
    match api.delete(&ek.to_string(), &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => shared.cache().absent(*ek, asked),
        // Another service did so, or it is another one now: the watch tells.
        Err(error) if is_absent(&error) || is_conflict(&error) => {}
        Err(error) => return Err(failed(&node_called(ek), &error)),
    }
    Ok(())
}

/// Gives back what was left, and looks into what was not heard of. Never ends by itself.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    let (mut unclear, mut reserved) = (BTreeSet::new(), BTreeMap::new());
    loop {
        tokio::time::sleep(AGAIN).await;
        shared.look_beneath().await;
        delete_what_is_lost(&shared, &mut unclear).await;
        free_what_is_reserved(&shared, &mut reserved).await;
    }
}

/// Deletes records that came second. Of which it is not known whether they did, that is said once.
async fn delete_what_is_lost(shared: &Shared, unclear: &mut BTreeSet<EkDigest>) {
    let (withheld, known) = {
        let cache = shared.cache();
        (cache.naming().withheld(), cache.naming().unclear())
    };
    unclear.retain(|ek| known.contains_key(ek));
    for (ek, rivals) in known {
        if unclear.insert(ek) {
            tracing::error!(%ek, ?rivals, "Two new records name one thing, and which was first is not known: remove one of the machines");
        }
    }
    for ek in withheld {
        let Some(left) = shared.cache().lost(&ek) else { continue };
        tracing::warn!(%ek, node = left.recorded.name.as_str(), "A record that came second was left there, and is deleted");
        if let Err(error) = in_time(&node_called(&ek), give_back(shared, &ek, &left.metadata)).await {
            tracing::warn!(%error, %ek, "A record that came second could not be deleted yet");
        }
    }
}

/// Has records give up what they reserve and was not claimed since: no command shows whose it is. `known` is at which revision each
/// was seen, and when first.
async fn free_what_is_reserved(shared: &Shared, known: &mut BTreeMap<EkDigest, (u64, Instant)>) {
    let reserving = shared.cache().reserving();
    known.retain(|ek, (revision, _)| reserving.get(ek).is_some_and(|it| it.recorded.revision() == *revision));
    for (ek, Known { recorded, mut metadata }) in reserving {
        let (_, since) = *known.entry(ek).or_insert((recorded.revision(), Instant::now()));
        if since.elapsed() < RESERVED || is_provisional(&metadata) {
            continue;
        }
        tracing::warn!(%ek, node = recorded.name.as_str(), "What a record reserves was never claimed, and is free again");
        metadata.annotations.get_or_insert_default().remove(RESERVES);
        let about = node_called(&ek);
        let freed = async {
            let (api, asked): (Api<DynamicObject>, _) =
                (Api::all_with(shared.client.clone(), &nodes()), shared.cache().moment());
            match api.replace(&ek.to_string(), &PostParams::default(), &node_object(&recorded, metadata)).await {
                Ok(object) => shared.take_over(node_of(object), asked).await.map(drop),
                // It was written or removed since.
                Err(error) if is_absent(&error) || is_conflict(&error) => Ok(()),
                Err(error) => Err(failed(&about, &error)),
            }
        };
        if let Err(error) = in_time(&about, freed).await {
            tracing::warn!(%error, %ek, "What a record reserves could not be freed yet");
        }
    }
}
