//! Flux's own manifests.

use serde_json::Value;

use crate::definitions::Definitions;

/// What a centre's templates are written in.
const NEEDED: [(&str, &str); 3] = [
    ("gitrepositories.source.toolkit.fluxcd.io", "v1"),
    ("kustomizations.kustomize.toolkit.fluxcd.io", "v1"),
    ("helmreleases.helm.toolkit.fluxcd.io", "v2"),
];
/// What reconciles them.
const CONTROLLERS: [&str; 3] = ["source-controller", "kustomize-controller", "helm-controller"];
/// Where the bootstrap script waits for them.
const NAMESPACE: &str = "flux-system";
/// The most documents.
const MAX_DOCUMENTS: usize = 1000;

/// A whole Flux, as `flux install --export` and the `install.yaml` of a release have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FluxSet {
    text: String,
    definitions: Definitions,
    version: Option<String>,
}

impl FluxSet {
    /// Reads a set; it must have what clusters are driven by.
    ///
    /// # Errors
    /// A sentence: what is wrong with it.
    pub fn read(text: String) -> Result<Self, String> {
        let manifests: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| error.to_string())?;
        if manifests.len() > MAX_DOCUMENTS {
            return Err(format!("it has more than {MAX_DOCUMENTS} manifests"));
        }
        let manifests: Vec<Value> = manifests.into_iter().filter(|manifest| !manifest.is_null()).collect();
        if let Some(place) = manifests.iter().position(|manifest| !is_manifest(manifest)) {
            return Err(format!("document {} has no texts \"apiVersion\", \"kind\" and \"metadata.name\"", place + 1));
        }
        let definitions = Definitions::of(&manifests);
        for (definition, version) in NEEDED {
            if !definitions.has(definition, version) {
                return Err(format!("it does not define {definition} {version}; take Flux 2.3 or newer"));
            }
        }
        let controller = |name: &str| {
            let is = |manifest: &&Value| manifest["kind"] == "Deployment" && manifest["metadata"]["name"] == name;
            manifests.iter().find(is)
        };
        for name in CONTROLLERS {
            let found = controller(name).ok_or_else(|| format!("it has no Deployment {name}"))?;
            if found["metadata"]["namespace"] != NAMESPACE {
                return Err(format!("its Deployment {name} is not in the namespace {NAMESPACE}"));
            }
        }
        let label =
            |manifest: &Value| manifest["metadata"]["labels"]["app.kubernetes.io/version"].as_str().map(str::to_owned);
        let version = controller(CONTROLLERS[2]).and_then(label);
        Ok(Self { text, definitions, version })
    }

    /// Its bytes, as they were imported.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The versions of its resources.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The release that it says it is.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

fn is_manifest(value: &Value) -> bool {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    is_text(&value["apiVersion"]) && is_text(&value["kind"]) && is_text(&value["metadata"]["name"])
}
