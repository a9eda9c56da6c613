//! The resources, followed.

use latchkey_factory_plus::Realm;
use std::collections::BTreeMap;

use latchkey_kubernetes_client::kube::api::{Api, ApiResource, DynamicObject};
use latchkey_kubernetes_client::kube::core::GroupVersionKind;
use latchkey_kubernetes_client::{Connection, Follower, Objects, PAGE};
use serde::de::DeserializeOwned;

use super::resource::{
    ACCOUNT_UUID, FORCE_REKEY, GROUP, HAS_OLD_KEYS, KeySpec, LocalSpec, REKEYED_AT, Refused, Resource, SUSPEND, Wanted,
};

/// The annotations that are kept of a resource.
const ANNOTATIONS: [&str; 4] = [FORCE_REKEY, SUSPEND, ACCOUNT_UUID, REKEYED_AT];
/// The most resources of one kind.
const MOST: usize = 10_000;

/// Characters of what is wrong with a specification, at most.
const MOST_SAID: usize = 200;

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    KerberosKey,
    LocalSecret,
}

impl Type {
    /// What it is called in messages.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::KerberosKey => "KerberosKey",
            Self::LocalSecret => "LocalSecret",
        }
    }

    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Self::KerberosKey => "kerberos-keys",
            Self::LocalSecret => "localsecrets",
        }
    }

    /// The objects of this kind in a namespace.
    pub(crate) fn api(self, connection: &Connection, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(GROUP, "v1", self.title());
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural());
        Api::namespaced_with(connection.client(), namespace, &resource)
    }

    /// Follows them.
    pub(crate) fn follow(self, connection: &Connection, namespace: &str, realm: &Realm) -> Follower<Resource> {
        let api = self.api(connection, namespace);
        let (labels, fields, about) = (String::new(), String::new(), self.plural());
        let realm = realm.clone();
        let objects = Objects { about, api, labels, fields, page: PAGE, most: MOST };
        connection.follow(objects, move |object| Some(self.read(object, &realm)))
    }

    /// Reads one of this kind.
    pub(crate) fn read(self, object: DynamicObject, realm: &Realm) -> Resource {
        let DynamicObject { metadata, data, .. } = object;
        let spec = &data["spec"];
        let wanted = match self {
            Self::KerberosKey => parsed::<KeySpec>(spec).and_then(|spec| Wanted::of_key(&spec, realm)),
            Self::LocalSecret => parsed::<LocalSpec>(spec).and_then(|spec| Wanted::of_local(&spec)),
        };
        let status = &data["status"];
        let said = status["message"].as_str().unwrap_or_default().to_owned();
        let mut annotations: BTreeMap<String, String> = metadata.annotations.unwrap_or_default();
        annotations.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
        Resource {
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            annotations,
            has_old_keys: metadata.labels.unwrap_or_default().contains_key(HAS_OLD_KEYS),
            status: status["observedGeneration"].as_i64().map(|generation| (generation, said)),
            wanted,
        }
    }
}

fn parsed<T: DeserializeOwned>(spec: &serde_json::Value) -> Result<T, Refused> {
    // What is said of a wrong value has the whole of it.
    let said =
        |error: serde_json::Error| latchkey_reason::printable(&error.to_string()).take(MOST_SAID).collect::<String>();
    T::deserialize(spec).map_err(|error| Refused(format!("the specification cannot be read: {}", said(error))))
}
