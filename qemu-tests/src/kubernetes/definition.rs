//! Definitions of kinds whose fields are nobody's business in a test.

use serde_json::{Value, json};

/// A `CustomResourceDefinition` that takes whatever fields there are, with a status of its own.
pub fn definition([group, version, kind, plural]: [&str; 4]) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}
