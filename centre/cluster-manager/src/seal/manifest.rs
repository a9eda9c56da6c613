//! Manifests of sealed secrets, edited.

use serde_json::{Map, Value, json};

use super::{Place, SealError, Sealed};
use crate::manifests::documents;

/// The largest manifest that is read, in bytes.
pub const MAX_MANIFEST: usize = 1 << 20;
const API_VERSION: &str = "bitnami.com/v1alpha1";
const KIND: &str = "SealedSecret";

/// The manifest of a sealed secret, of which one key is edited. What is not known here is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedSecret {
    place: Place,
    /// Without its data.
    manifest: Value,
    data: Map<String, Value>,
}

impl SealedSecret {
    /// A secret without keys.
    pub fn new(place: &Place) -> Self {
        let metadata = json!({"name": place.name(), "namespace": place.namespace()});
        let spec = json!({"template": {"metadata": metadata}});
        let manifest = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec});
        Self { place: place.clone(), manifest, data: Map::new() }
    }

    /// Reads the file of a place.
    pub fn read(place: &Place, text: &str) -> Result<Self, SealError> {
        let wrong = |wrong: &str| SealError::Manifest { path: place.path(), wrong: wrong.into() };
        if text.len() > MAX_MANIFEST {
            return Err(wrong("is too large"));
        }
        let mut manifest: Value = serde_saphyr::from_str(text).map_err(|_| wrong("is no single document of YAML"))?;
        if manifest["apiVersion"] != API_VERSION || manifest["kind"] != KIND {
            return Err(wrong("is no SealedSecret of bitnami.com/v1alpha1"));
        }
        let metadata = &manifest["metadata"];
        if metadata["name"] != place.name() || metadata["namespace"] != place.namespace() {
            return Err(wrong("is the manifest of another secret"));
        }
        let data = manifest.get_mut("spec").and_then(|spec| spec.get_mut("encryptedData"));
        match data.map(Value::take) {
            Some(Value::Object(data)) => Ok(Self { place: place.clone(), manifest, data }),
            _ => Err(wrong("has no object spec.encryptedData")),
        }
    }

    /// Sets the key to a value that was sealed for it.
    pub fn insert(&mut self, sealed: &Sealed) -> Result<(), SealError> {
        if sealed.place != self.place {
            let wrong = "is not the place that the value was sealed for".into();
            return Err(SealError::Manifest { path: self.place.path(), wrong });
        }
        self.data.insert(self.place.key().into(), sealed.as_str().into());
        Ok(())
    }

    /// Takes the key away; whether it was there.
    pub fn remove(&mut self) -> bool {
        self.data.remove(self.place.key()).is_some()
    }

    /// The file as it is to be; `None` where no key is left, and the file is to go.
    pub fn write(&self) -> Result<Option<String>, SealError> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let mut manifest = self.manifest.clone();
        manifest["spec"]["encryptedData"] = Value::Object(self.data.clone());
        let wrong = |wrong: String| SealError::Manifest { path: self.place.path(), wrong };
        documents(&[manifest]).map(Some).map_err(|error| wrong(format!("cannot be written: {error}")))
    }
}
