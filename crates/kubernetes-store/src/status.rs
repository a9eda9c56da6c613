//! The status of an `AttestedNode`: what was last seen of a machine, for `kubectl get`. Nothing is decided by it.
//!
//! A rejoin writes no record, so that a power cut in a whole room is not followed by a thousand writes. Its status is written after
//! the ticket went out, at a pace that leaves the API server to the tickets, and not at all where it would say what it says already.

use crate::beside::{Beside, pace};
use crate::connection::in_time;
use crate::error::{failed, is_absent};
use crate::objects::{node_called, node_of, nodes};
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

/// What is to be written, and what was.
#[derive(Debug)]
pub(crate) struct Statuses {
    waiting: Beside<EkDigest, NodeStatus>,
    written: Mutex<BTreeMap<EkDigest, NodeStatus>>,
}

impl Default for Statuses {
    fn default() -> Self {
        Self { waiting: Beside::new(MOST), written: Mutex::default() }
    }
}

impl Statuses {
    /// Has this written, unless it is there already.
    pub(crate) fn show(&self, ek: EkDigest, status: NodeStatus) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&ek).is_none_or(|written| !status.is_said_by(written, BEHIND)) {
            drop(written);
            self.waiting.put(ek, status, NodeStatus::followed_by);
        }
    }

    fn note(&self, ek: EkDigest, status: NodeStatus) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= MOST {
            written.clear();
        }
        let next = match written.remove(&ek) {
            Some(before) => before.followed_by(status),
            None => status,
        };
        written.insert(ek, next);
    }
}

/// Writes what waits. Never ends by itself.
pub(crate) async fn write_statuses(shared: Arc<Shared>) {
    let (mut pace, mut pauses) = (pace(PER_SECOND), Pauses::default());
    loop {
        let (ek, status) = shared.statuses.waiting.next().await;
        pace.tick().await;
        let about = node_called(&ek);
        match in_time(&about, write(&shared, &ek, &status)).await {
            Ok(()) => {
                shared.statuses.note(ek, status);
                pauses = Pauses::default();
            }
            Err(error) => {
                tracing::warn!(%error, "A status was not written: what kubectl shows of this machine is older than it says");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
        }
    }
}

async fn write(shared: &Shared, ek: &EkDigest, status: &NodeStatus) -> Result<(), StoreError> {
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let asked = shared.cache().moment();
    // What is not known stays as it was.
    let patch = Patch::Merge(status_object(ek, status));
    match api.patch_status(&ek.to_string(), &PatchParams::default(), &patch).await {
        // A later revision of the object with the same record: known at once, so that the next decision is not overtaken by it.
        Ok(object) => shared.take_over(node_of(object), asked).await.map(drop),
        // It was removed meanwhile.
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(failed(&node_called(ek), &error)),
    }
}
