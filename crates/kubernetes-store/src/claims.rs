//! Claims: a name or a disk is one machine's.

use crate::error::{ApiCode, elsewhere, failed, is_absent, is_conflict, one_line};
use crate::objects::{NodeObject, called, claims, node_called, node_of, nodes};
use crate::store::Shared;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, PostParams, Preconditions};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::objects::Claimed;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a claim is made that is there and then is not.
const TRIES: usize = 4;
/// The annotation that makes an earlier claim a new one.
const RENEWED: &str = "latchkey.dev/renewed";

/// How a claim is called in messages.
pub(crate) fn claim_called(claimed: &Claimed) -> String {
    format!("{} ({} {})", called("nodeclaims", &claimed.object_name()), claimed.kind(), claimed.value())
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimSpec {
    kind: String,
    value: String,
    ek_sha256: EkDigest,
}

/// Whose something is, after a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Us,
    Another,
}

fn api(client: &kube::Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &claims())
}

/// Claims this for a machine. An earlier claim for the same machine is as good: the join that made it may have been cut short. One
/// for another machine counts as long as that machine has what it names on its record, and some time beyond: see [`ClaimsSeen`].
pub(crate) async fn claim(shared: &Shared, claimed: &Claimed, ek: EkDigest) -> Result<Owner, StoreError> {
    let (api, about) = (api(&shared.client), claim_called(claimed));
    let spec = ClaimSpec { kind: claimed.kind().to_owned(), value: claimed.value(), ek_sha256: ek };
    let name = claimed.object_name();
    let object = DynamicObject::new(&name, &claims()).data(json!({ "spec": spec }));
    for _ in 0..TRIES {
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => return Ok(Owner::Us),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(failed(&about, &error)),
        }
        // Or it was removed in between.
        let Some(object) = api.get_opt(&name).await.map_err(|error| failed(&about, &error))? else { continue };
        match spec_of(&object) {
            Some(known) if known == spec => {
                if renew(&api, &about, object).await? {
                    return Ok(Owner::Us);
                }
            }
            Some(known) if known.ek_sha256 != ek && shared.claims.is_stale(&name, &object.metadata, Instant::now()) => {
                if has(shared, &known.ek_sha256, claimed).await? {
                    return Ok(Owner::Another);
                }
                let former = known.ek_sha256;
                tracing::warn!(claim = about, %former, %ek, "A claim without a record is taken over");
                remove(&api, &about, object).await?;
            }
            _ => return Ok(Owner::Another),
        }
    }
    Err(elsewhere(&about, ApiCode::Conflict, "the claim is made and removed all the time"))
}

/// Makes a machine's own earlier claim a new one: whoever counts how long it has been unchanged begins anew, and whoever is about to
/// remove it finds another. Whether it was still there.
async fn renew(api: &Api<DynamicObject>, about: &str, mut object: DynamicObject) -> Result<bool, StoreError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    object.metadata.managed_fields = None;
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    object.metadata.annotations.get_or_insert_default().insert(RENEWED.to_owned(), now);
    match api.replace(&name, &PostParams::default(), &object).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) || is_conflict(&error) => Ok(false),
        Err(error) => Err(failed(about, &error)),
    }
}

/// Whether this machine's record names what is claimed, or cannot be read. Asked of the API server, not of what is known here.
async fn has(shared: &Shared, ek: &EkDigest, claimed: &Claimed) -> Result<bool, StoreError> {
    let (api, about): (Api<DynamicObject>, _) = (Api::all_with(shared.client.clone(), &nodes()), node_called(ek));
    let object = api.get_opt(&ek.to_string()).await.map_err(|error| failed(&about, &error))?;
    Ok(match object.map(node_of) {
        None => false,
        Some(NodeObject::Damaged(_)) => true,
        Some(NodeObject::Record(record, _)) => match claimed {
            Claimed::Name(name) => record.name == *name,
            Claimed::Disk(uuid) => record.uuids().any(|known| known == *uuid),
        },
    })
}

/// Claims that stood in somebody's way, as they were seen here: which revision, and since when.
///
/// A join makes its claims and then its record, within seconds. So a claim whose machine has no such record after many minutes is of
/// a join that was cut short, or of a machine that was removed, and another may have what it names. The time is counted here, from
/// the moment when the claim was first in somebody's way: no clock of another machine is believed, and a service that starts counts
/// anew. A machine that comes again with its own claim changes it, and the count begins anew.
#[derive(Debug)]
pub(crate) struct ClaimsSeen {
    stale: Duration,
    seen: Mutex<BTreeMap<String, Seen>>,
}

#[derive(Debug)]
struct Seen {
    revision: String,
    since: Instant,
    last: Instant,
}

/// Claims that are remembered, and for how long where nobody asks any more.
const MOST_SEEN: usize = 1024;
const FORGOTTEN: Duration = Duration::from_hours(1);

impl ClaimsSeen {
    pub(crate) fn new(stale: Duration) -> Self {
        Self { stale, seen: Mutex::default() }
    }

    /// Whether it was seen unchanged for the whole time.
    fn is_stale(&self, name: &str, metadata: &ObjectMeta, now: Instant) -> bool {
        let revision = metadata.resource_version.clone().unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| now.saturating_duration_since(seen.last) < FORGOTTEN);
        if seen.len() >= MOST_SEEN && !seen.contains_key(name) {
            // Those that wait already go first.
            return false;
        }
        let known =
            seen.entry(name.to_owned()).or_insert_with(|| Seen { revision: revision.clone(), since: now, last: now });
        if known.revision != revision {
            (known.revision, known.since) = (revision, now);
        }
        known.last = now;
        now.saturating_duration_since(known.since) >= self.stale
    }
}

/// A claim as it stood before the record was written that gives it up.
#[derive(Debug)]
pub(crate) struct Former {
    about: String,
    object: DynamicObject,
}

/// Looks at a machine's claim that its next record does not need. `None` if there is none of its own.
pub(crate) async fn former(
    client: &kube::Client,
    claimed: &Claimed,
    ek: EkDigest,
) -> Result<Option<Former>, StoreError> {
    let (about, name) = (claim_called(claimed), claimed.object_name());
    let object = api(client).get_opt(&name).await.map_err(|error| failed(&about, &error))?;
    let own = object.filter(|object| spec_of(object).is_some_and(|spec| spec.ek_sha256 == ek));
    Ok(own.map(|object| Former { about, object }))
}

/// Gives it back, now that the record stands that does not name it. A later record of the machine may name it again: then it was
/// claimed again, which makes it another claim than the one that was looked at, and it stays.
pub(crate) async fn release(client: &kube::Client, former: Former) -> Result<(), StoreError> {
    remove(&api(client), &former.about, former.object).await
}

/// Removes this very claim, not one that another machine made meanwhile.
async fn remove(api: &Api<DynamicObject>, about: &str, object: DynamicObject) -> Result<(), StoreError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: object.metadata.uid, resource_version: object.metadata.resource_version };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &parameters).await {
        Ok(_) => Ok(()),
        Err(error) if is_absent(&error) || is_conflict(&error) => Ok(()),
        Err(error) => Err(failed(about, &error)),
    }
}

/// A claim that cannot be read is nobody's.
fn spec_of(object: &DynamicObject) -> Option<ClaimSpec> {
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec)
        .inspect_err(|error| {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            tracing::error!(name, error = one_line(&error.to_string()), "A claim cannot be read, and is nobody's");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_stale_when_it_was_seen_unchanged_for_the_whole_time_here() {
        let (claims, begun) = (ClaimsSeen::new(Duration::from_mins(10)), Instant::now());
        let at = |revision: &str| ObjectMeta { resource_version: Some(revision.to_owned()), ..ObjectMeta::default() };
        let after = |minutes| begun + Duration::from_mins(minutes);
        assert!(!claims.is_stale("a", &at("1"), begun));
        assert!(!claims.is_stale("a", &at("1"), after(9)));
        assert!(!claims.is_stale("b", &at("1"), after(10)), "another one");
        assert!(claims.is_stale("a", &at("1"), after(10)));
        // Renewed by its machine: the time begins anew.
        assert!(!claims.is_stale("a", &at("2"), after(11)));
        assert!(!claims.is_stale("a", &at("2"), after(20)));
        assert!(claims.is_stale("a", &at("2"), after(21)));
        // Nobody was in its way for long.
        assert!(!claims.is_stale("a", &at("2"), after(90)));
    }

    #[test]
    fn claims_that_are_remembered_are_bounded() {
        let (claims, now) = (ClaimsSeen::new(Duration::ZERO), Instant::now());
        for number in 0..MOST_SEEN {
            assert!(claims.is_stale(&number.to_string(), &ObjectMeta::default(), now));
        }
        assert!(!claims.is_stale("more", &ObjectMeta::default(), now));
        assert!(claims.is_stale("0", &ObjectMeta::default(), now));
    }
}
