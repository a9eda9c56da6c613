//! Claims: a name or a disk is one machine's.

use crate::error::{ApiCode, elsewhere, failed, is_absent, is_conflict, one_line};
use crate::objects::{called, claims};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams, Preconditions};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{NodeName, StoreError};
use latchkey_keys::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// How often a claim is made that is there and then is not.
const TRIES: usize = 4;

/// What is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Name(NodeName),
    Disk(Uuid),
}

impl Claimed {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Disk(_) => "disk",
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Disk(uuid) => uuid.to_string(),
        }
    }

    /// The object's name follows from what is claimed, so that there can be one only. Hashed: a node's name may be longer than what
    /// is left of an object's beside the kind.
    fn object_name(&self) -> String {
        let hash = ring::digest::digest(&ring::digest::SHA256, self.value().as_bytes());
        format!("{}-{}", self.kind(), hex::encode(hash))
    }
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", called("nodeclaims", &self.object_name()), self.kind(), self.value())
    }
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

/// Claims this for a machine. An earlier claim for the same machine is as good: the join that made it may have been cut short.
pub(crate) async fn claim(client: &kube::Client, claimed: &Claimed, ek: EkDigest) -> Result<Owner, StoreError> {
    let (api, about) = (api(client), claimed.to_string());
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
        if let Some(object) = api.get_opt(&name).await.map_err(|error| failed(&about, &error))? {
            let ours = spec_of(&object).is_some_and(|known| known == spec);
            return Ok(if ours { Owner::Us } else { Owner::Another });
        }
    }
    Err(elsewhere(&about, ApiCode::Conflict, "the claim is made and removed all the time"))
}

/// Gives back what a machine does not have any more: its record, which stands, does not name it.
pub(crate) async fn release(client: &kube::Client, claimed: &Claimed, ek: EkDigest) -> Result<(), StoreError> {
    let (api, about, name) = (api(client), claimed.to_string(), claimed.object_name());
    let Some(object) = api.get_opt(&name).await.map_err(|error| failed(&about, &error))? else { return Ok(()) };
    if spec_of(&object).is_none_or(|spec| spec.ek_sha256 != ek) {
        return Ok(());
    }
    // This very claim, not one that another machine made meanwhile.
    let preconditions = Preconditions { uid: object.metadata.uid, resource_version: object.metadata.resource_version };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &parameters).await {
        Ok(_) => Ok(()),
        Err(error) if is_absent(&error) || is_conflict(&error) => Ok(()),
        Err(error) => Err(failed(&about, &error)),
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
    fn a_claim_s_object_name_follows_from_kind_and_value_and_is_one() {
        let name = Claimed::Name("a".repeat(63).parse().unwrap()).object_name();
        assert_eq!(name.len(), "name-".len() + 64);
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
        let uuid = "0a0a0a0a-0000-4000-8000-000000000001";
        // A node may be called as a disk is.
        assert_ne!(
            Claimed::Name(uuid.parse().unwrap()).object_name(),
            Claimed::Disk(uuid.parse().unwrap()).object_name()
        );
    }
}
