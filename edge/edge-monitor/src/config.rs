//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;

use latchkey_edge_service::{AccountSection, CentreSection, ClusterSection, KubernetesSection, Namespace};
use latchkey_factory_plus::Realm;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use latchkey_service_runtime::pages::PagesConfig;
use serde::Deserialize;

use crate::broker::Broker;
use crate::mqtt::BrokerUrl;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `edge-monitor.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the centre is.
    pub centre: CentreSection,
    /// The centre's Kerberos realm.
    pub realm: Realm,
    /// The cluster that is monitored.
    pub cluster: ClusterSection,
    /// The namespace in which the connections' numbers are kept.
    pub namespace: Namespace,
    /// Who the monitor is at the centre and at the broker.
    pub account: AccountSection,
    /// The way to the API server; none in a pod.
    pub kubernetes: Option<KubernetesSection>,
    /// The way to the broker; none asks the centre's directory, and believes the centre's authority.
    #[serde(default)]
    pub broker: BrokerSection,
    /// Where its own `/metrics` and `/healthz` are; without it nowhere.
    pub pages: Option<PagesConfig>,
}

/// The way to the broker.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSection {
    /// `mqtts://HOST[:PORT]`; none asks the directory.
    pub url: Option<BrokerUrl>,
    /// PEM: the authorities of its certificate; none takes `centre.authority`.
    pub authority: Option<PathBuf>,
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigFileError;

    /// The file has no such field: there has been one form of it.
    fn schema(&self) -> u32 {
        Self::SCHEMA
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        self.pages.as_ref().map_or(Ok(()), PagesConfig::check)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let Self { centre, account, kubernetes, broker, pages, .. } = self;
        let named = centre.paths().chain([&mut account.password_file]).chain(&mut broker.authority);
        let named = named.chain(pages.iter_mut().flat_map(PagesConfig::paths));
        named.chain(kubernetes.as_mut().map(|kubernetes| &mut kubernetes.kubeconfig)).collect()
    }
}

impl Config {
    /// The way to the broker.
    pub fn broker(&self) -> Broker {
        Broker {
            url: self.broker.url.clone(),
            authority: self.broker.authority.clone().or_else(|| self.centre.authority.clone()),
            insecure: self.centre.insecure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EXAMPLE: &str = include_str!("../edge-monitor.example.json");

    fn load(text: &str) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_is_accepted_and_nothing_else_is_silently() {
        let config = load(EXAMPLE).unwrap();
        let broker = config.broker();
        assert_eq!(broker.url.unwrap().to_string(), "mqtts://mqtt.factory.example:8883");
        assert_eq!(broker.authority.unwrap(), Path::new("/etc/latchkey/broker/ca.pem"));
        for (from, to) in
            [("\"realm\"", "\"colour\": 1, \"realm\""), ("mqtts://", "https://"), ("\"Bolt\"", "\"true\"")]
        {
            let error = load(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains("line"), "{error}");
        }
    }

    #[test]
    fn a_broker_that_is_not_named_is_the_centres() {
        let mut text: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
        text.as_object_mut().unwrap().remove("broker");
        let broker = load(&text.to_string()).unwrap().broker();
        assert!(broker.url.is_none());
        assert_eq!(broker.authority.unwrap(), Path::new("/etc/latchkey/centre/ca.pem"));
    }
}
