//! Finds out that another etcd lies beneath the API server than the one it began with: a snapshot was restored, and the API server goes
//! on. It lists and watches by what it knew, until revisions pass those of before, and reads and writes what there is: whatever is
//! written is never heard of, and nobody new is let in.

use crate::connection::in_time;
use crate::error::failed;
use crate::objects::{NodeObject, nodes};
use crate::records::read;
use crate::store::{Shared, lock};
use kube::api::{Api, DynamicObject, ListParams};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use std::sync::Mutex;

/// What is said of it.
const OTHER_ETCD: &str = "attestednodes: what is written and read there is not listed: etcd beneath the API server is another one than \
     it began with, and nobody new is let in; start the API server anew";

/// A record that was answered with and not heard of, and whether it is not listed either.
#[derive(Debug, Default)]
pub(crate) struct Unheard(Mutex<Option<(EkDigest, bool)>>);

impl Unheard {
    /// A machine's record was not heard of in time: that is looked into.
    pub(crate) fn note(&self, ek: EkDigest) {
        lock(&self.0).get_or_insert((ek, false));
    }

    /// What is wrong, until that record is listed or gone.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        matches!(*lock(&self.0), Some((_, true))).then_some(OTHER_ETCD)
    }
}

impl Shared {
    /// Looks into what was noted.
    pub(crate) async fn look_beneath(&self) {
        let Some((ek, before)) = *lock(&self.unheard.0) else { return };
        match self.is_read_and_not_listed(&ek).await {
            Ok(found) => {
                if found && !before {
                    tracing::error!(%ek, "{OTHER_ETCD}");
                }
                *lock(&self.unheard.0) = found.then_some((ek, true));
            }
            Err(error) => tracing::warn!(%error, %ek, "Why a record was not heard of is not known yet"),
        }
    }

    /// Whether the record is there, and a listing that was asked for later does not have it.
    async fn is_read_and_not_listed(&self, ek: &EkDigest) -> Result<bool, StoreError> {
        let Some(NodeObject::Record(recorded, metadata, _)) = read(self, ek).await? else { return Ok(false) };
        let (about, api): (_, Api<DynamicObject>) = ("attestednodes", Api::all_with(self.client.clone(), &nodes()));
        let named = ListParams::default().fields(&format!("metadata.name={ek}"));
        let listed = in_time(about, async { api.list(&named).await.map_err(|error| failed(about, &error)) }).await?;
        let is_same = |object: &DynamicObject| object.metadata.uid == metadata.uid;
        if listed.items.iter().any(is_same) {
            return Ok(false);
        }
        // It may be gone since.
        let again = read(self, ek).await?;
        Ok(matches!(again, Some(NodeObject::Record(again, ..)) if again.revision() >= recorded.revision()))
    }
}
