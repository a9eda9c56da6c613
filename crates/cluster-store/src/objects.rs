//! How a cluster that is kept in its API server is kept there: names of objects, for the crate that keeps it
//! (`latchkey-kubernetes-store`) and for the command line, which speaks to the API server through stock kubectl.

use crate::name::NodeName;
use crate::record::NodeRecord;
use crate::status::NodeStatus;
use latchkey_attestation::EkDigest;
use latchkey_attestation::reference::format_rfc3339;
use latchkey_keys::Uuid;
use serde_json::{Value, json};

/// The API group. The project's name as a domain of its own: `k8s.io` and `kubernetes.io` belong to others and need their approval.
pub const GROUP: &str = "latchkey.dev";
/// The version. Alpha: what is in a record may still change, together with the version that the record itself names.
pub const VERSION: &str = "v1alpha1";
/// The namespace of everything that is not cluster-scoped.
pub const NAMESPACE: &str = "latchkey";

/// The kind of a record, and its plural.
pub const NODE: (&str, &str) = ("AttestedNode", "attestednodes");
/// The kind of a claim, and its plural.
pub const CLAIM: (&str, &str) = ("NodeClaim", "nodeclaims");

/// The `ConfigMap` of the policy, with the key `policy.json`.
pub const POLICY_MAP: &str = "latchkey-policy";
/// That of the manifests and their signatures.
pub const REFERENCES_MAP: &str = "latchkey-references";
/// That of the join rules, with the key `enrolment.json`.
pub const ENROLMENT_MAP: &str = "latchkey-enrolment";
/// That of the cluster, with the key `cluster.json`.
pub const CLUSTER_MAP: &str = "latchkey-cluster";
/// That of the denials: a key for each, whose value is the reason.
pub const DENIED_MAP: &str = "latchkey-denied";
/// That of what vendors publish for verifiers, a key for each file (`latchkey_collateral::Entries`).
pub const COLLATERAL_MAP: &str = "latchkey-collateral";
/// That of the revisions that were accepted, with the key `revisions.json`.
pub const REVISIONS_MAP: &str = "latchkey-revisions";
/// That of the machines that wait for the operator.
pub const PENDING_MAP: &str = "latchkey-pending";

/// What is claimed for one machine, so that no other gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// A name.
    Name(NodeName),
    /// A disk.
    Disk(Uuid),
}

impl Claimed {
    /// Everything that this record claims.
    pub fn by(record: &NodeRecord) -> impl Iterator<Item = Self> {
        [Self::Name(record.name.clone())].into_iter().chain(record.uuids().map(Self::Disk))
    }

    /// `name` or `disk`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Disk(_) => "disk",
        }
    }

    /// What is claimed, as text.
    pub fn value(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Disk(uuid) => uuid.to_string(),
        }
    }

    /// The object's name follows from what is claimed, so that there can be one only. Hashed: a node's name may be longer than what
    /// is left of an object's beside the kind.
    pub fn object_name(&self) -> String {
        let hash = ring::digest::digest(&ring::digest::SHA256, self.value().as_bytes());
        format!("{}-{}", self.kind(), hex::encode(hash))
    }

    /// The object that claims it for the machine of this record.
    pub fn object(&self, record: &NodeRecord) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": CLAIM.0,
            "metadata": { "name": self.object_name() },
            "spec": { "kind": self.kind(), "value": self.value(), "ek_sha256": record.ek_sha256 },
        })
    }
}

/// The object of a record.
pub fn node_object(record: &NodeRecord) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": NODE.0,
        "metadata": { "name": record.ek_sha256.to_string() },
        "spec": record,
    })
}

/// The object of a record with its status alone; what is not known is left out.
pub fn status_object(ek: &EkDigest, status: &NodeStatus) -> Value {
    let (image, version) = (&status.image, &status.version);
    let mut shown =
        json!({ "image": image, "version": version, "lastAttestation": format_rfc3339(status.last_attestation) });
    for (key, known) in [
        ("agentVersion", status.agent_version.as_deref().map(Value::from)),
        ("epoch", status.epoch.map(Value::from)),
        ("lastReport", status.last_report.map(|seconds| format_rfc3339(seconds).into())),
    ] {
        if let Some(value) = known {
            shown[key] = value;
        }
    }
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": NODE.0,
        "metadata": { "name": ek.to_string() },
        "status": shown,
    })
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

    #[test]
    fn a_status_is_written_in_the_words_of_its_schema() {
        let ek = EkDigest::from_hex(&"11".repeat(32)).unwrap();
        let (image, version) = ("plant".to_owned(), "1.2.3".to_owned());
        let agent_version = Some("0.3.0".to_owned());
        let status =
            NodeStatus { image, version, agent_version, epoch: Some(1), last_attestation: 0, last_report: Some(60) };
        let object = status_object(&ek, &status);
        assert_eq!(object["metadata"]["name"], ek.to_string());
        assert_eq!(
            object["status"],
            json!({"image": "plant", "version": "1.2.3", "agentVersion": "0.3.0", "epoch": 1,
                   "lastAttestation": "1970-01-01T00:00:00Z", "lastReport": "1970-01-01T00:01:00Z"})
        );
        let object = status_object(&ek, &NodeStatus { agent_version: None, epoch: None, last_report: None, ..status });
        assert!(
            object["status"].get("agentVersion").is_none()
                && object["status"].get("epoch").is_none()
                && object["status"].get("lastReport").is_none()
        );
    }
}
