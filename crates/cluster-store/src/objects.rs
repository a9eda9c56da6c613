//! How a cluster that is kept in its API server is kept there: names of objects, for the crate that keeps it
//! (`latchkey-kubernetes-store`) and for the command line, which speaks to the API server through stock kubectl.

use crate::record::NodeRecord;
use crate::status::NodeStatus;
use latchkey_attestation::EkDigest;
use latchkey_attestation::reference::format_rfc3339;
use serde_json::{Value, json};

/// The API group. The project's name as a domain of its own: `k8s.io` and `kubernetes.io` belong to others and need their approval.
pub const GROUP: &str = "latchkey.dev";
/// The version. Alpha: what is in a record may still change, together with the version that the record itself names.
pub const VERSION: &str = "v1alpha1";
/// The namespace of everything that is not cluster-scoped.
pub const NAMESPACE: &str = "latchkey";

/// The kind of a record, and its plural.
pub const NODE: (&str, &str) = ("AttestedNode", "attestednodes");

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
