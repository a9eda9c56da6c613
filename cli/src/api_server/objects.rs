//! Objects of the API, as far as this command reads and writes them.

use std::collections::BTreeMap;

use latchkey_cluster_store::objects::NAMESPACE;
use serde::{Deserialize, Serialize};

/// The annotation with the revision that a document replaced.
const REPLACES: &str = "latchkey.dev/replaces";

/// The files of a document, by name.
pub(crate) type Data = BTreeMap<String, String>;

/// A document of the cluster.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigMap {
    api_version: String,
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    pub(crate) data: Data,
    /// Files that are no text, in Base64.
    #[serde(default, skip_serializing_if = "Data::is_empty")]
    pub(crate) binary_data: Data,
}

/// What has to be sent back with an object that is replaced.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// It replaces this revision and no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl ConfigMap {
    /// Without anything in it.
    pub(super) fn new(name: &str) -> Self {
        Self::with(name, Data::new())
    }

    pub(super) fn with(name: &str, data: Data) -> Self {
        let (name, namespace) = (name.to_owned(), Some(NAMESPACE.to_owned()));
        let metadata = Metadata { name, namespace, ..Metadata::default() };
        Self { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), metadata, data, binary_data: Data::new() }
    }

    /// Whether it is in no API server yet.
    pub(super) fn is_new(&self) -> bool {
        self.metadata.resource_version.is_none()
    }

    /// Has it say which revision it replaces: a document that says nothing new is none that an API server writes, and its revision stays.
    pub(super) fn say_what_it_replaces(&mut self) {
        let replaced = self.metadata.resource_version.clone().unwrap_or_default();
        self.metadata.annotations.insert(REPLACES.to_owned(), replaced);
    }

    pub(super) fn to_document(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Several documents as one.
pub(super) fn list(documents: &[ConfigMap]) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        api_version: &'a str,
        kind: &'a str,
        items: &'a [ConfigMap],
    }
    serde_json::to_vec(&List { api_version: "v1", kind: "List", items: documents }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_put_on_an_object_goes_back_with_it() {
        let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"latchkey","resourceVersion":"7","uid":"u","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e/f"],"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"n","uid":"v"}]},"data":{"g":"h"},"binaryData":{"i":"aGk="}}"#;
        let map: ConfigMap = serde_json::from_str(text).unwrap();
        assert_eq!(String::from_utf8(map.to_document()).unwrap(), text);
    }
}
