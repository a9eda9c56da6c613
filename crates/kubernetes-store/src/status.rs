//! The status of an `AttestedNode`: what was last seen of a machine, for `kubectl get`. Nothing is decided by it.
//!
//! A rejoin writes no record, so that a power cut in a whole room is not followed by a thousand writes. Its status is written after
//! the ticket went out, at a pace that leaves the API server to the tickets, and not at all where it would say what it says already.

use crate::beside::{Beside, pace};
use crate::connection::in_time;
use crate::error::{ApiCode, elsewhere, failed, is_absent, is_conflict};
use crate::objects::{node_called, node_of, nodes};
use crate::records::read_one;
use crate::store::Shared;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::status_object;
use latchkey_cluster_store::{NodeStatus, StoreError};
use latchkey_kubernetes_client::Pauses;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Written each second, at most: a cluster of 500 machines after a power cut within half a minute.
const PER_SECOND: u32 = 20;
/// Machines whose status waits, and of which it is remembered what theirs says.
const MOST: usize = 8192;
/// Seconds that the last attestation and report may be later than the status says.
const BEHIND: u64 = 300;

/// Writes of one status that others may come before.
const TRIES: u32 = 4;

/// Of which object: a machine may be removed, and come again.
type Of = (EkDigest, String);

/// What is to be written, and what was.
#[derive(Debug)]
pub(crate) struct Statuses {
    waiting: Beside<Of, NodeStatus>,
    written: Mutex<BTreeMap<Of, NodeStatus>>,
}

impl Default for Statuses {
    fn default() -> Self {
        Self { waiting: Beside::new(MOST), written: Mutex::default() }
    }
}

impl Statuses {
    /// Has this written, unless it is there already.
    pub(crate) fn show(&self, of: Of, status: NodeStatus) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&of).is_none_or(|written| !status.is_said_by(written, BEHIND)) {
            drop(written);
            self.waiting.put(of, status, NodeStatus::followed_by);
        }
    }

    fn note(&self, of: Of, status: NodeStatus) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= MOST {
            written.clear();
        }
        let next = match written.remove(&of) {
            Some(before) => before.followed_by(status),
            None => status,
        };
        written.insert(of, next);
    }
}

/// Writes what waits. Never ends by itself.
pub(crate) async fn write_statuses(shared: Arc<Shared>) {
    let (mut pace, mut pauses) = (pace(PER_SECOND), Pauses::default());
    loop {
        let (of, status) = shared.statuses.waiting.next().await;
        pace.tick().await;
        let about = node_called(&of.0);
        match Box::pin(in_time(&about, write(&shared, &of, &status))).await {
            Ok(()) => {
                shared.statuses.note(of, status);
                pauses = Pauses::default();
            }
            Err(error) => {
                tracing::warn!(%error, "A status was not written: what kubectl shows of this machine is older than it says");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
        }
    }
}

/// A status says that something was released by this very object: so each patch names the state that it is of. (A uid in it would not
/// count, since nothing but the status does.)
async fn write(shared: &Shared, (ek, uid): &Of, status: &NodeStatus) -> Result<(), StoreError> {
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let mut object = status_object(ek, status);
    for _ in 0..TRIES {
        let (asked, known) = {
            let mut cache = shared.cache();
            (cache.moment(), cache.get(ek).map(|known| known.metadata.clone()))
        };
        // It was removed meanwhile, or is another one now.
        let Some(known) = known.filter(|known| known.uid.as_ref() == Some(uid)) else { return Ok(()) };
        object["metadata"]["resourceVersion"] = known.resource_version.into();
        // What is not known stays as it was.
        match api.patch_status(&ek.to_string(), &PatchParams::default(), &Patch::Merge(&object)).await {
            // A later revision of the object with the same record: known at once, so that the next decision is not overtaken by it.
            Ok(object) => return shared.take_over(node_of(object), asked).await.map(drop),
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) if is_conflict(&error) => read_one(shared, ek).await?,
            Err(error) => return Err(failed(&node_called(ek), &error)),
        }
    }
    Err(elsewhere(&node_called(ek), ApiCode::Conflict, "others write it all the time"))
}
