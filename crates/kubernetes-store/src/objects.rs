//! Latchkey's own resources: how they are called, their schemas, and a record as an object.

use crate::error::{ApiCode, elsewhere};
use crate::naming::Mark;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{GROUP, NODE, VERSION};
use latchkey_cluster_store::{ContentError, DamagedRecord, NodeRecord, Recorded, StoreError};
use serde_json::{Value, json};

pub(crate) fn nodes() -> ApiResource {
    let (kind, plural) = NODE;
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: format!("{GROUP}/{VERSION}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// How an object of ours is called in messages.
pub(crate) fn called(plural: &str, name: &str) -> String {
    format!("{plural}.{GROUP}/{name}")
}

pub(crate) fn node_called(ek: &EkDigest) -> String {
    called(NODE.1, &ek.to_string())
}

/// The object of a record. `metadata` is that of the object which it replaces, if it replaces one.
pub(crate) fn node_object(record: &NodeRecord, metadata: ObjectMeta) -> DynamicObject {
    let spec = serde_json::to_value(record).unwrap_or_default();
    let name = Some(record.ek_sha256.to_string());
    DynamicObject { metadata: ObjectMeta { name, ..metadata }, ..DynamicObject::new("", &nodes()) }
        .data(json!({ "spec": spec }))
}

/// An object among the records, read.
#[derive(Clone, Debug)]
pub(crate) enum NodeObject {
    /// A record, what else the object carries, and how it was written.
    Record(Box<Recorded>, Box<ObjectMeta>, Mark),
    /// It cannot be used; and the object's uid.
    Damaged(Box<DamagedRecord>, String),
}

/// Reads an object that the API server answered with. It is a witness that the record stands there: nothing but answers come here.
pub(crate) fn node_of(object: DynamicObject) -> NodeObject {
    let DynamicObject { metadata, data, .. } = object;
    let name = metadata.name.clone().unwrap_or_default();
    let spec = data.get("spec").unwrap_or(&Value::Null).to_string();
    match record_of(&name, &metadata, spec.as_bytes()) {
        #[expect(clippy::disallowed_methods, reason = "it was read from the API server, or written there and answered")]
        Ok((record, revision)) => {
            let recorded = Recorded::stands_elsewhere(record, revision);
            let mark = Mark::of(&metadata, data.get("status").is_some_and(|status| !status.is_null()));
            NodeObject::Record(Box::new(recorded), Box::new(kept_of(metadata)), mark)
        }
        Err(error) => {
            let bytes = if spec.len() > latchkey_cluster_store::MAX_RECORD { "" } else { &spec };
            let damaged = DamagedRecord::of(name, error.to_string(), bytes.as_bytes());
            NodeObject::Damaged(Box::new(damaged), metadata.uid.unwrap_or_default())
        }
    }
}

fn record_of(name: &str, metadata: &ObjectMeta, spec: &[u8]) -> Result<(NodeRecord, u64), StoreError> {
    let about = called(NODE.1, name);
    let malformed = |error: ContentError| StoreError::malformed(about.as_ref())(error);
    let record = NodeRecord::parse(spec).map_err(malformed)?;
    if record.ek_sha256.to_string() != name {
        let sentence = format!("the record is of EK {}, not of the one in the object's name", record.ek_sha256);
        return Err(malformed(ContentError::Rule(sentence)));
    }
    Ok((record, revision_of(&about, metadata)?))
}

/// The revision of an object. Kubernetes 1.35 lays down what etcd always did: it is a number, and later ones are higher.
pub(crate) fn revision_of(about: &str, metadata: &ObjectMeta) -> Result<u64, StoreError> {
    let text = metadata.resource_version.as_deref().unwrap_or_default();
    let number = text.parse::<u64>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| elsewhere(about, ApiCode::AnswerUnusable, "its resourceVersion is no number"))
}

/// What others may have put on an object and gets written back with it.
fn kept_of(metadata: ObjectMeta) -> ObjectMeta {
    let ObjectMeta { name, resource_version, uid, labels, annotations, finalizers, owner_references, .. } = metadata;
    ObjectMeta {
        name,
        resource_version,
        uid,
        labels,
        annotations,
        finalizers,
        owner_references,
        ..ObjectMeta::default()
    }
}

/// [`node_definition`] as a file of the chart: `charts/latchkey/templates/definitions.yaml`, which `./dev docs` writes.
pub fn chart_definitions() -> String {
    const HEAD: &str = "\
# Made by `./dev docs` from crates/kubernetes-store/src/objects.rs. Among the templates, since helm never upgrades what is in `crds/`;
# kept when the release goes, since every record would go with its definition.
---
";
    let mut definition = node_definition();
    definition["metadata"]["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
    // Whether a program's JSON keeps the order of fields, any crate beside this one decides.
    definition.sort_all_objects();
    format!("{HEAD}{}\n", serde_json::to_string_pretty(&definition).unwrap_or_default())
}

/// The custom resource definition of records, as the chart installs it.
pub fn node_definition() -> Value {
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let version = json!({
        "name": VERSION, "served": true, "storage": true,
        "subresources": { "status": {} },
        "additionalPrinterColumns": [
            column("Node", "string", ".spec.name"),
            column("Role", "string", ".spec.role"),
            column("Image", "string", ".status.image"),
            column("Version", "string", ".status.version"),
            column("Agent", "string", ".status.agentVersion"),
            column("Epoch", "integer", ".status.epoch"),
            column("Reported", "string", ".spec.reported.outcome.kind"),
            column("Report", "date", ".status.lastReport"),
            column("Attested", "date", ".status.lastAttestation"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        "schema": { "openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": { "spec": record_schema(), "status": status_schema() },
            "x-kubernetes-validations": [
                { "rule": "self.metadata.name == self.spec.ek_sha256", "message": "a record is named by its machine's TPM" },
            ],
        }},
    });
    let (kind, plural) = NODE;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "shortNames": ["an"], "categories": ["latchkey"],
            },
            "versions": [version],
        },
    })
}

/// The record, as `latchkey_cluster_store::NodeRecord` reads it. What the service does not read back it must not find pruned: so
/// unknown fields are kept, and cost the record.
fn record_schema() -> Value {
    let (seconds, digest) = (json!({ "type": "integer", "minimum": 0 }), "^[0-9a-f]{64}$");
    let uuid = json!({ "type": "string", "maxLength": 36 });
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["version", "ek_sha256", "name", "role", "first_joined_at", "disks"],
        "properties": {
            "version": { "type": "integer", "enum": [1] },
            "ek_sha256": { "type": "string", "pattern": digest },
            "name": { "type": "string", "minLength": 1, "maxLength": 253 },
            "role": { "type": "string", "enum": ["control-plane", "worker"] },
            "first_joined_at": seconds,
            "joining_since": seconds,
            "disks": { "type": "array", "minItems": 1, "maxItems": latchkey_cluster_store::MAX_DISKS, "items": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["uuid", "epoch", "state", "key_version", "issued_at"],
                "properties": {
                    "uuid": uuid, "epoch": { "type": "integer", "minimum": 1 },
                    "state": { "type": "string", "enum": ["pending", "confirmed"] },
                    "key_version": { "type": "integer", "minimum": 1 }, "issued_at": seconds,
                },
            }},
            "retired": { "type": "array", "maxItems": latchkey_cluster_store::MAX_RETIRED, "items": uuid },
            "reported": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "moved": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "tpm": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "firmware": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "ticket": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "addresses": {
                "type": "array", "maxItems": latchkey_cluster_store::MAX_ADDRESSES,
                "items": { "type": "string", "maxLength": 45 },
            },
        },
    })
}

/// For people: nothing is decided by it.
fn status_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "image": { "type": "string", "maxLength": 256 },
            "version": { "type": "string", "maxLength": 64 },
            "agentVersion": { "type": "string", "maxLength": 64 },
            "epoch": { "type": "integer", "minimum": 0 },
            "lastAttestation": { "type": "string", "format": "date-time" },
            "lastReport": { "type": "string", "format": "date-time" },
        },
    })
}
