//! The forms of dumps, as services load them.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A dump of the configuration database, version 2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigDbDump {
    /// The configuration database.
    pub service: Uuid,
    /// 2.
    pub version: u32,
    /// By primary class, by object.
    pub objects: BTreeMap<Uuid, BTreeMap<Uuid, Object>>,
    /// By application, by object.
    pub configs: BTreeMap<Uuid, BTreeMap<Uuid, Value>>,
}

/// An object of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Object {
    /// What people call it.
    pub name: String,
    /// All classes that it is a direct member of; its primary class alone where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_of: Option<Vec<Uuid>>,
    /// All classes that it is a direct subclass of; its rank's root class alone where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subclass_of: Option<Vec<Uuid>>,
    /// The class whose subclasses are its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub powerset_of: Option<Uuid>,
}

/// A dump of the authorisation service, version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthDump {
    /// The authorisation service.
    pub service: Uuid,
    /// 2.
    pub version: u32,
    /// By principal.
    pub identities: BTreeMap<Uuid, Identity>,
    /// By principal and permission: the targets, and of each whether its members are meant; `None` is everything.
    pub grants: BTreeMap<Uuid, BTreeMap<Uuid, Option<BTreeMap<Uuid, bool>>>>,
}

/// What a principal is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `NAME@REALM`.
    pub kerberos: String,
}

/// A dump of the directory, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryDump {
    /// The directory.
    pub service: Uuid,
    /// 1.
    pub version: u32,
    /// Where each service is.
    pub advertisements: Vec<Advertisement>,
}

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advertisement {
    /// The service.
    pub service: Uuid,
    /// Its base URL.
    pub url: String,
    /// The account that provides it.
    pub device: Uuid,
}
