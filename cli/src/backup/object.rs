//! Objects of a cluster whose fields are kept as they came: no number is rounded, no field that is not known is lost.

use std::collections::BTreeMap;

use latchkey_kubernetes::Sha256;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::CommandError;
use crate::stock::StockCode;

/// Fields by name, each as its JSON text.
type Fields = BTreeMap<String, Box<RawValue>>;

/// What the API server gives an object, and takes from nobody. Owners are given back later, by their new uids.
const OF_THE_SERVER: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
];

/// What of an object's metadata is its author's.
const BY_ITS_AUTHOR: [&str; 2] = ["labels", "annotations"];

/// An object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Object(Fields);

/// What of an object is looked at.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Head {
    pub(super) metadata: Metadata,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    pub(super) uid: String,
    #[serde(default)]
    pub(super) deletion_timestamp: Option<String>,
    #[serde(default)]
    pub(super) owner_references: Vec<Owner>,
}

/// Whose an object is: once all of these are gone, it is removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) block_owner_deletion: Option<bool>,
}

/// What tells an object of one resource from another.
pub(super) type Key = (Option<String>, String);

impl Head {
    pub(super) fn key(&self) -> Key {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }
}

impl Object {
    pub(super) fn parse(text: &str) -> Result<Self, CommandError> {
        serde_json::from_str(text).map_err(unreadable)
    }

    pub(super) fn head(text: &str) -> Result<Head, CommandError> {
        serde_json::from_str(text).map_err(unreadable)
    }

    /// The same, as what it says it is in no list: items of a list of built-in kinds do not say it.
    pub(super) fn named(mut self, api_version: &str, kind: &str) -> Result<Self, CommandError> {
        self.0.insert("apiVersion".into(), raw(&api_version)?);
        self.0.insert("kind".into(), raw(&kind)?);
        Ok(self)
    }

    pub(super) fn text(&self) -> Result<String, CommandError> {
        serde_json::to_string(self).map_err(unreadable)
    }

    pub(super) fn status(&self) -> Option<&RawValue> {
        self.0.get("status").map(|status| &**status)
    }

    /// The hash of what its author wrote: labels and annotations, and all but metadata and status.
    pub(super) fn content(&self) -> Result<Sha256, CommandError> {
        let mut content = self.clone();
        content.0.remove("status");
        let mut metadata = self.metadata()?;
        metadata.retain(|name, value| BY_ITS_AUTHOR.contains(&name.as_str()) && value.get() != "{}");
        content.0.insert("metadata".into(), raw(&metadata)?);
        Ok(Sha256::of(content.text()?.as_bytes()))
    }

    /// As it can be created anew.
    pub(super) fn to_create(&self, with_status: bool) -> Result<Self, CommandError> {
        let mut new = self.clone();
        if !with_status {
            new.0.remove("status");
        }
        let mut metadata = new.metadata()?;
        metadata.retain(|name, _| !OF_THE_SERVER.contains(&name.as_str()));
        new.0.insert("metadata".into(), raw(&metadata)?);
        Ok(new)
    }

    /// Only its name and its status.
    pub(super) fn only_status(&self) -> Result<Option<Self>, CommandError> {
        let Some(status) = self.0.get("status") else { return Ok(None) };
        let mut named = self.only_name()?;
        named.0.insert("status".into(), status.clone());
        Ok(Some(named))
    }

    /// Only its name and these owners.
    pub(super) fn only_owners(&self, owners: &[Owner]) -> Result<Self, CommandError> {
        let mut named = self.only_name()?;
        let mut metadata = named.metadata()?;
        metadata.insert("ownerReferences".into(), raw(&owners)?);
        named.0.insert("metadata".into(), raw(&metadata)?);
        Ok(named)
    }

    /// Only its name.
    pub(super) fn only_name(&self) -> Result<Self, CommandError> {
        let mut metadata = self.metadata()?;
        metadata.retain(|name, _| ["name", "namespace"].contains(&name.as_str()));
        let mut named = self.clone();
        named.0.retain(|name, _| ["apiVersion", "kind"].contains(&name.as_str()));
        named.0.insert("metadata".into(), raw(&metadata)?);
        Ok(named)
    }

    fn metadata(&self) -> Result<Fields, CommandError> {
        let metadata = self.0.get("metadata").map_or("{}", |metadata| metadata.get());
        serde_json::from_str(metadata).map_err(unreadable)
    }
}

/// Several objects as one document.
pub(super) fn list(objects: &[Object]) -> Result<Vec<u8>, CommandError> {
    #[derive(Serialize)]
    struct List<'a> {
        #[serde(rename = "apiVersion")]
        api_version: &'static str,
        kind: &'static str,
        items: &'a [Object],
    }
    serde_json::to_vec(&List { api_version: "v1", kind: "List", items: objects }).map_err(unreadable)
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>, CommandError> {
    to_raw_value(value).map_err(unreadable)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: serde_json::Error) -> CommandError {
    CommandError::local(StockCode::Malformed, "an object of the cluster is not readable").because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"x","uid":"1","resourceVersion":"7","labels":{"l":"1"},"finalizers":["f"],"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"2","controller":true}]},"spec":{"large":123456789012345678901234567890,"exact":1.10},"status":{"ready":true}}"#;

    #[test]
    fn what_is_kept_is_kept_to_the_letter() {
        let object = Object::parse(TEXT).unwrap();
        let text = object.text().unwrap();
        assert!(text.contains(r#""spec":{"large":123456789012345678901234567890,"exact":1.10}"#), "{text}");
        let new = object.to_create(false).unwrap().text().unwrap();
        assert_eq!(
            new,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"finalizers":["f"],"labels":{"l":"1"},"name":"a","namespace":"x"},"spec":{"large":123456789012345678901234567890,"exact":1.10}}"#
        );
        assert!(object.to_create(true).unwrap().status().is_some());
    }

    #[test]
    fn labels_and_annotations_are_content_and_what_the_server_gives_is_not() {
        let content = |text: &str| Object::parse(text).unwrap().content().unwrap();
        let of = |from: &str, to: &str| content(&TEXT.replace(from, to));
        assert_eq!(of("\"resourceVersion\":\"7\"", "\"resourceVersion\":\"8\""), content(TEXT));
        assert_eq!(of("\"labels\"", "\"annotations\":{},\"labels\""), content(TEXT));
        for (from, to) in [
            ("\"labels\":{\"l\":\"1\"}", "\"labels\":{\"l\":\"2\"}"),
            ("\"labels\"", "\"annotations\":{\"a\":\"b\"},\"labels\""),
            ("\"exact\":1.10", "\"exact\":1.11"),
        ] {
            assert_ne!(of(from, to), content(TEXT), "{to}");
        }
    }

    #[test]
    fn status_and_owners_are_written_without_the_rest() {
        let object = Object::parse(TEXT).unwrap();
        let head = Object::head(TEXT).unwrap();
        let status = object.only_status().unwrap().unwrap().text().unwrap();
        let name = r#""apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"x""#;
        assert_eq!(status, format!(r#"{{{name}}},"status":{{"ready":true}}}}"#));
        let owners = object.only_owners(&head.metadata.owner_references).unwrap().text().unwrap();
        let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"2","controller":true}"#;
        assert_eq!(owners, format!(r#"{{{name},"ownerReferences":[{owner}]}}}}"#));
        assert_eq!(head.key(), (Some("x".into()), "a".into()));
    }
}
