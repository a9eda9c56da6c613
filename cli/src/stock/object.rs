//! An object of any kind, its fields as kubectl printed them: for what is compared, and not understood.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// An object. It may be a Secret: nothing prints it but what leaves those out.
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) metadata: ObjectMetadata,
    /// Its other fields.
    pub(crate) rest: Fields,
}

/// What it is called.
pub(crate) struct ObjectMetadata {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) rest: Fields,
}

/// Fields by their names, each as kubectl printed it.
type Fields = BTreeMap<String, Box<RawValue>>;

fn field<T: DeserializeOwned, E: serde::de::Error>(fields: &mut Fields, name: &'static str) -> Result<Option<T>, E> {
    fields.remove(name).map(|value| serde_json::from_str(value.get()).map_err(E::custom)).transpose()
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut rest = Fields::deserialize(deserializer)?;
        let missing = serde::de::Error::missing_field;
        let kind = field(&mut rest, "kind")?.ok_or_else(|| missing("kind"))?;
        let mut metadata: Fields = field(&mut rest, "metadata")?.ok_or_else(|| missing("metadata"))?;
        let name = field(&mut metadata, "name")?.ok_or_else(|| missing("name"))?;
        let namespace = field(&mut metadata, "namespace")?;
        Ok(Self { kind, metadata: ObjectMetadata { name, namespace, rest: metadata }, rest })
    }
}
