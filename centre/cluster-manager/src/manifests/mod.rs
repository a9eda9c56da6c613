//! The files of a cluster's repository, from templates of the configuration database.
//!
//! The "Flux template" names files and the manifests in them; its parameter `helm` is the release of the cluster's
//! chart, made of the "Helm chart template" that the configuration names and the template of `HelmRelease`. Equal
//! inputs give equal bytes.

#[cfg(test)]
pub(crate) mod fixture;
mod names;
mod yaml;

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::kubernetes_names::is_kubernetes_subdomain;
use latchkey_factory_plus::release::{self, Release};
use latchkey_factory_plus::template::{EntryError, compose_maps, substitute_entry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use yaml::{YamlError, documents};

/// Where the manifests of a cluster lie in its repository.
pub const DIRECTORY: &str = "edo/cluster";
/// Where sealed secrets lie. Flux applies them apart from the rest, since the rest brings what they need: the directory must be there,
/// also while it has no secret.
pub const SECRETS: &str = "edo/secrets";
const SECRETS_README: &str = "# Sealed secrets\n\nThe cluster manager writes a file here for each sealed secret. Flux applies them once \
Sealed Secrets is there.\n";
/// The file that links the edge to this repository; the bootstrap script carries it, too.
const SELF_LINK: &str = "self-link.yaml";
/// The file that keeps Flux up to date; a bare cluster has none.
const FLUX: &str = "flux-system.yaml";
/// The most files of a Flux template.
const MAX_FILES: usize = 64;
/// The entries that the files are made of, as they stand in the configuration database.
#[derive(Debug, Clone, PartialEq)]
pub struct Templates {
    /// The entry of the application "Flux template": an object of file names and manifests, or arrays of manifests.
    pub flux: Value,
    /// The entry of the application "Helm chart template" that the configuration names.
    pub chart: Value,
    /// The entry of the application "K8s resource template" for `HelmRelease`.
    pub helm_release: Value,
}

/// Which repositories there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repositories {
    /// The git server's base URL as edges know it, such as `https://git.example.org`.
    pub git: String,
    /// The repository with the edge's Helm charts.
    pub helm: Uuid,
}

/// The files of a cluster's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The contents by path.
    pub files: BTreeMap<String, String>,
    /// The manifests that link an edge to the repository.
    pub self_link: String,
}

impl Repository {
    /// SHA-256 over paths and contents, each with its length before it, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for part in self.files.iter().flat_map(|(path, text)| [path, text]) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex::encode(hash.finalize())
    }
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A template gives nothing, or something else than it must.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// A manifest cannot be written.
    #[error("the manifests in {0:?}: {1}")]
    Yaml(String, YamlError),
}

/// What the entry is called in errors.
const FLUX_TEMPLATE: &str = "Flux template";

/// The files of the repository of `cluster`.
pub fn repository(
    cluster: Uuid,
    configuration: &Configuration,
    repositories: &Repositories,
    templates: &Templates,
) -> Result<Repository, ManifestError> {
    let helm = helm_release(cluster, configuration, templates)?;
    let base = repositories.git.trim_end_matches('/');
    let parameters = json!({
        "uuid": cluster,
        "name": configuration.name,
        "namespace": configuration.namespace,
        "helm": helm,
        "sealed": sealed(configuration),
        "url": {
            "self": format!("{base}/uuid/{cluster}"),
            "helm": format!("{base}/uuid/{}", repositories.helm),
        },
    });
    let flux = substitute_entry(FLUX_TEMPLATE, &templates.flux, &parameters)?;
    let Value::Object(entries) = flux else { return Err(shape(FLUX_TEMPLATE, "is no object of file names")) };
    if entries.len() > MAX_FILES {
        return Err(shape(FLUX_TEMPLATE, format!("names more than {MAX_FILES} files")));
    }
    let mut files = BTreeMap::new();
    for (name, manifests) in entries {
        let name = names::file(&name).ok_or_else(|| bad_file(&name))?;
        if configuration.bare && name == FLUX {
            continue;
        }
        let text = file(&name, manifests)?;
        if files.insert(format!("{DIRECTORY}/{name}"), text).is_some() {
            return Err(shape(FLUX_TEMPLATE, format!("names {name:?} twice")));
        }
    }
    let self_link = files.get(&format!("{DIRECTORY}/{SELF_LINK}")).cloned().ok_or_else(|| {
        shape(FLUX_TEMPLATE, format!("has no file {SELF_LINK:?}, which links an edge to its repository"))
    })?;
    files.insert("README.md".into(), readme(cluster, configuration));
    files.insert(format!("{SECRETS}/README.md"), SECRETS_README.into());
    Ok(Repository { files, self_link })
}

/// What tells Flux that sealed secrets can be applied: their definition is there, which the cluster's chart brings. A cluster to which
/// somebody else brings Sealed Secrets, or nobody, does not wait for it; a placeholder without a value takes its key away.
fn sealed(configuration: &Configuration) -> Value {
    if configuration.bare {
        return json!({});
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "sealedsecrets.bitnami.com",
    });
    json!({ "healthChecks": [definition] })
}

/// The `HelmRelease` of the cluster's chart.
fn helm_release(cluster: Uuid, configuration: &Configuration, templates: &Templates) -> Result<Value, ManifestError> {
    let parameters = json!({"uuid": cluster, "name": configuration.name, "namespace": configuration.namespace});
    let chart = release::chart(&templates.chart, &parameters)?;
    let release = Release {
        uuid: cluster,
        namespace: &configuration.namespace,
        values: compose_maps(chart.values.clone(), configuration.values.clone()),
    };
    Ok(release.manifest(&chart, &templates.helm_release)?)
}

/// The text of a file: one manifest or several.
fn file(name: &str, manifests: Value) -> Result<String, ManifestError> {
    let manifests = match manifests {
        Value::Array(manifests) => manifests,
        one => vec![one],
    };
    if manifests.is_empty() {
        return Err(shape(FLUX_TEMPLATE, format!("has no manifests in {name:?}")));
    }
    for (place, manifest) in manifests.iter().enumerate() {
        if let Some(wrong) = wrong_manifest(manifest) {
            return Err(shape(FLUX_TEMPLATE, format!("has in {name:?}, manifest {}, {wrong}", place + 1)));
        }
    }
    documents(&manifests).map_err(|error| ManifestError::Yaml(name.into(), error))
}

/// What keeps a value from being a manifest.
fn wrong_manifest(manifest: &Value) -> Option<&'static str> {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if !is_text(&manifest["apiVersion"]) || !is_text(&manifest["kind"]) {
        return Some("no texts \"apiVersion\" and \"kind\"");
    }
    let name = manifest["metadata"]["name"].as_str();
    (!name.is_some_and(is_kubernetes_subdomain)).then_some("no \"metadata.name\" that Kubernetes allows")
}

fn shape(entry: &'static str, wrong: impl Into<String>) -> ManifestError {
    EntryError::shape(entry, wrong).into()
}

fn bad_file(name: &str) -> ManifestError {
    shape(
        FLUX_TEMPLATE,
        format!("names a file {name:?}; letters a to z, digits, hyphens and single dots make a file name"),
    )
}

fn readme(cluster: Uuid, configuration: &Configuration) -> String {
    format!(
        "# Edge cluster {}\n\n\
         The cluster manager writes the directory `{DIRECTORY}`; Flux on the edge applies it, and sealed secrets in `{SECRETS}`.\n\
         Changes made there by hand are overwritten: change the cluster's configuration instead.\n\
         Cluster: `{cluster}`.\n",
        configuration.name
    )
}

#[cfg(test)]
mod tests;
