//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;

use latchkey_edge_service::{AccountSection, CentreSection, ClusterSection, KubernetesSection, Namespace};
use latchkey_factory_plus::Realm;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use latchkey_service_runtime::pages::PagesConfig;
use serde::Deserialize;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `edge-sync.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the centre is.
    pub centre: CentreSection,
    /// The Kerberos realm of the centre: charts are told of it.
    pub realm: Realm,
    /// Which cluster this is.
    pub cluster: ClusterSection,
    /// The namespace that everything is deployed to.
    pub namespace: Namespace,
    /// Who this program is at the centre.
    pub account: AccountSection,
    /// How the API server is reached; absent, as a pod does.
    pub kubernetes: Option<KubernetesSection>,
    /// Where the sealed-secrets controller is.
    pub sealed_secrets: Option<SealedSecrets>,
    /// Where its own `/metrics` and `/healthz` are; without it nowhere.
    pub pages: Option<PagesConfig>,
}

/// Where the sealed-secrets controller is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedSecrets {
    /// The namespace of its keys.
    pub namespace: Namespace,
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigFileError;

    /// There is one, and files do not say so.
    fn schema(&self) -> u32 {
        Self::SCHEMA
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        self.pages.as_ref().map_or(Ok(()), PagesConfig::check)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let kubeconfig = self.kubernetes.as_mut().map(|section| &mut section.kubeconfig);
        let pages = self.pages.iter_mut().flat_map(PagesConfig::paths);
        self.centre.paths().chain([&mut self.account.password_file]).chain(kubeconfig).chain(pages).collect()
    }
}

impl Config {
    /// The namespace of the keys of sealed-secrets: the edge's own, where nothing else is said.
    pub fn keys_namespace(&self) -> &str {
        self.sealed_secrets.as_ref().map_or(&self.namespace, |section| &section.namespace).as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read_and_anything_else_beside_it_refused() {
        let example = include_str!("../edge-sync.example.json");
        let config: Config = serde_json::from_str(example).unwrap();
        assert_eq!(config.keys_namespace(), "sealed-secrets");
        let other = example.replacen('{', "{\"colour\": 1,", 1);
        assert!(serde_json::from_str::<Config>(&other).unwrap_err().to_string().contains("colour"));
    }
}
