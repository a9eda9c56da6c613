//! Dumps, version 2: objects and entries as data, to be loaded.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::REGISTRATION;
use latchkey_factory_plus::uuids::service::CONFIG_DB;
use serde::Deserialize;
use serde_json::Value;

/// What is loaded.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    service: Uuid,
    version: u32,
    /// By primary class, by object.
    #[serde(default)]
    pub objects: BTreeMap<Uuid, BTreeMap<Uuid, ObjectDump>>,
    /// By application, by object.
    #[serde(default)]
    pub configs: BTreeMap<Uuid, BTreeMap<Uuid, Value>>,
}

/// An object of a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectDump {
    /// Its name, for people: merged into its entry of the application "General information".
    #[serde(default)]
    pub name: Option<String>,
    /// Read, and not kept: the contract does not say what of.
    #[serde(default)]
    pub iri: Option<String>,
    /// All the classes that it is a direct member of; its primary class alone, if this is not said.
    #[serde(default)]
    pub member_of: Option<Vec<Uuid>>,
    /// All the classes that it is a direct subclass of; its rank's root class alone, if this is not said.
    #[serde(default)]
    pub subclass_of: Option<Vec<Uuid>>,
    /// The class whose subclasses are this class's members: that class becomes one.
    #[serde(default)]
    pub powerset_of: Option<Uuid>,
    /// All direct members.
    #[serde(default, rename = "enum")]
    pub members: Option<Vec<Uuid>>,
}

/// Why a body is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// No JSON, or not of this form.
    #[error("this is no dump: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Of another service, or another version.
    #[error("this is no dump of the configuration database, version 2 (service {CONFIG_DB}, version 2)")]
    Other,
    /// Registrations are made of `objects`.
    #[error("configs has registrations ({REGISTRATION}); they are made of objects")]
    Registrations,
    /// Two classes claim one object.
    #[error("objects has {0} twice; an object has one primary class")]
    Twice(Uuid),
}

impl Default for Dump {
    fn default() -> Self {
        Self { service: CONFIG_DB, version: 2, objects: BTreeMap::new(), configs: BTreeMap::new() }
    }
}

impl Dump {
    /// Reads a body.
    pub fn parse(bytes: &[u8]) -> Result<Self, DumpError> {
        let dump: Self = serde_json::from_slice(bytes)?;
        if dump.service != CONFIG_DB || dump.version != 2 {
            return Err(DumpError::Other);
        }
        if dump.configs.contains_key(&REGISTRATION) {
            return Err(DumpError::Registrations);
        }
        let mut seen = std::collections::BTreeSet::new();
        match dump.objects.values().flat_map(BTreeMap::keys).find(|object| !seen.insert(**object)) {
            Some(twice) => Err(DumpError::Twice(*twice)),
            None => Ok(dump),
        }
    }
}
