//! Which versions of its resources a set of manifests knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// The custom resource definitions of a set of manifests: their versions, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions(BTreeMap<String, BTreeSet<String>>);

/// A version that a new set of manifests no longer has. Objects that are stored in it cannot be read any more: an API server takes no
/// such definition, and what follows the repository stops.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dropped {
    /// The definition, such as `helmreleases.helm.toolkit.fluxcd.io`.
    pub definition: String,
    /// The version, such as `v2beta1`.
    pub version: String,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.definition, self.version)
    }
}

impl Definitions {
    /// Those among manifests.
    pub fn of(manifests: &[Value]) -> Self {
        let mut all = BTreeMap::new();
        for manifest in manifests.iter().filter(|manifest| manifest["kind"] == "CustomResourceDefinition") {
            let versions = manifest["spec"]["versions"].as_array().into_iter().flatten();
            let names = versions.filter_map(|version| version["name"].as_str().map(str::to_owned));
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            all.entry(name).or_insert_with(BTreeSet::new).extend(names);
        }
        Self(all)
    }

    /// Whether a version of a definition is among them.
    pub fn has(&self, definition: &str, version: &str) -> bool {
        self.0.get(definition).is_some_and(|versions| versions.contains(version))
    }

    /// Versions of these that `new` has no longer. Any of them may be stored: each was the one that was stored once.
    pub fn dropped_by(&self, new: &Self) -> Vec<Dropped> {
        let all = self.0.iter().flat_map(|(name, versions)| versions.iter().map(move |version| (name, version)));
        let gone = all.filter(|(name, version)| !new.has(name, version));
        gone.map(|(name, version)| Dropped { definition: name.clone(), version: version.clone() }).collect()
    }
}
