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
/// Seconds that the last attestation may be later than the status says.
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
        if written.get(&ek).is_none_or(|written| !says(written, &status)) {
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

/// Whether a status that was written is as good as this one.
fn says(written: &NodeStatus, status: &NodeStatus) -> bool {
    let later = status.last_attestation.saturating_sub(written.last_attestation);
    later < BEHIND
        && (&written.image, &written.version) == (&status.image, &status.version)
        && status.epoch.is_none_or(|epoch| written.epoch == Some(epoch))
        && status.last_report.is_none_or(|report| written.last_report == Some(report))
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
        Ok(object) => shared.take_over(node_of(object), asked),
        // It was removed meanwhile.
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(failed(&node_called(ek), &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(attested: u64) -> NodeStatus {
        let (image, version) = ("plant".to_owned(), "1.2.3".to_owned());
        NodeStatus { image, version, epoch: Some(1), last_attestation: attested, last_report: None }
    }

    #[test]
    fn what_a_status_says_already_is_not_written_again() {
        let statuses = Statuses::default();
        let reported = NodeStatus { epoch: None, last_report: Some(10), ..status(10) };
        statuses.note(EkDigest::from_hex(&"11".repeat(32)).unwrap(), status(0));
        assert!(says(&status(0), &status(BEHIND - 1)) && !says(&status(0), &status(BEHIND)));
        assert!(!says(&status(0), &reported));
        // A report says nothing of the epoch, and what was known of it stays.
        assert!(says(&status(0).followed_by(reported.clone()), &reported));
        assert!(!says(&status(0), &NodeStatus { version: "1.2.4".to_owned(), ..status(1) }));
        assert!(!says(&status(0), &NodeStatus { epoch: Some(2), ..status(1) }));
    }
}
