//! One control plane joins at a time, whichever service lets it in: a `Lease` of `coordination.k8s.io`.
//!
//! Its holder is the machine's EK digest. It ends with the machine's report, or when it was seen unchanged for its whole time
//! *here*: no clock of another machine is believed, and a service that starts waits that time anew.

use crate::error::{ApiCode, elsewhere, failed, is_conflict};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The object.
pub(crate) const NAME: &str = "latchkey";
/// How long a control plane may take to join: what the join service's decision gives it.
const TIME: Duration = Duration::from_mins(10);
/// How often it is tried to take it while others do.
const TRIES: usize = 8;

/// The lease, as it was seen here.
#[derive(Debug, Default)]
pub(crate) struct ControlPlaneLease {
    /// Its revision, and since when it was seen so.
    seen: Mutex<Option<(String, Instant)>>,
}

impl ControlPlaneLease {
    /// Takes the lease for this machine, or begins it anew. Whether it has it.
    pub(crate) async fn take(&self, api: &Api<Lease>, ek: EkDigest) -> Result<bool, StoreError> {
        let about = format!("leases/{NAME}");
        for _ in 0..TRIES {
            let known = api.get_opt(NAME).await.map_err(|error| failed(&about, &error))?;
            let written = match known {
                None => {
                    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
                    api.create(&PostParams::default(), &lease(metadata, Some(ek))).await
                }
                Some(known) if self.is_free_for(&known, ek, Instant::now()) => {
                    api.replace(NAME, &PostParams::default(), &lease(known.metadata, Some(ek))).await
                }
                Some(_) => return Ok(false),
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(failed(&about, &error)),
            }
        }
        Err(elsewhere(&about, ApiCode::Conflict, "others take and give it back all the time"))
    }

    /// Gives the lease back, if this machine has it.
    pub(crate) async fn give_back(&self, api: &Api<Lease>, ek: EkDigest) -> Result<(), StoreError> {
        let about = format!("leases/{NAME}");
        let known = api.get_opt(NAME).await.map_err(|error| failed(&about, &error))?;
        let Some(known) = known.filter(|known| holder(known) == Some(&ek.to_string())) else { return Ok(()) };
        match api.replace(NAME, &PostParams::default(), &lease(known.metadata, None)).await {
            Ok(_) => Ok(()),
            // Somebody else has it by now, or it was taken anew.
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => Err(failed(&about, &error)),
        }
    }

    fn is_free_for(&self, lease: &Lease, ek: EkDigest, now: Instant) -> bool {
        let revision = lease.metadata.resource_version.clone().unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match &*seen {
            Some((known, since)) if *known == revision => *since,
            _ => now,
        };
        *seen = Some((revision, since));
        match holder(lease) {
            None | Some("") => true,
            Some(holder) => holder == ek.to_string() || now.saturating_duration_since(since) >= TIME,
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

fn lease(metadata: ObjectMeta, holder: Option<EkDigest>) -> Lease {
    // For people: no service believes another's clock.
    let now = Some(MicroTime(Timestamp::now()));
    let spec = LeaseSpec {
        holder_identity: Some(holder.map_or_else(String::new, |ek| ek.to_string())),
        acquire_time: now.clone(),
        renew_time: now,
        lease_duration_seconds: i32::try_from(TIME.as_secs()).ok(),
        ..LeaseSpec::default()
    };
    // As it was read: the revision in it makes the write fail if somebody else wrote since.
    let metadata = ObjectMeta { managed_fields: None, ..metadata };
    Lease { metadata, spec: Some(spec) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(revision: &str, by: Option<EkDigest>) -> Lease {
        lease(ObjectMeta { resource_version: Some(revision.to_owned()), ..ObjectMeta::default() }, by)
    }

    #[test]
    fn a_lease_ends_when_it_was_seen_unchanged_for_its_whole_time_here() {
        let [one, other] = ["11", "22"].map(|byte| EkDigest::from_hex(&byte.repeat(32)).unwrap());
        let (kept, begun) = (ControlPlaneLease::default(), Instant::now());
        assert!(kept.is_free_for(&held("7", None), other, begun));
        assert!(!kept.is_free_for(&held("8", Some(one)), other, begun));
        assert!(kept.is_free_for(&held("8", Some(one)), one, begun));
        let almost = Duration::from_secs(TIME.as_secs() - 1);
        assert!(!kept.is_free_for(&held("8", Some(one)), other, begun + almost));
        // Taken anew: its time begins anew.
        assert!(!kept.is_free_for(&held("9", Some(one)), other, begun + TIME));
        assert!(kept.is_free_for(&held("9", Some(one)), other, begun + TIME + TIME));
    }
}
