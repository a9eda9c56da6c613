//! The configuration file: closed JSON, checked as a whole before anything is opened.

use latchkey_attesting_service::Limits;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, MetricsConfig, check_admin, check_range};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How old what a cluster decides by may be, where nothing else is said.
const UNHEARD: Duration = Duration::from_secs(30);

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `join-service.example.json` and `join-service.embedded.example.json` together show every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// Address and port for nodes. Port 0 lets the kernel choose; the READY line says what it chose.
    pub listen: SocketAddr,
    /// Address and port of `/metrics` and `/healthz`, plain HTTP; a loopback address.
    pub admin_listen: SocketAddr,
    /// The same pages for other machines, over TLS and for whoever shows a token or a certificate. Without it there are none.
    pub metrics: Option<MetricsConfig>,
    /// The cluster's directory; see the crate `latchkey-cluster-store`. This, or `store`, and never both.
    pub cluster_directory: Option<PathBuf>,
    /// Another place for what a cluster directory holds.
    pub store: Option<StoreConfig>,
    /// The P-256 key (PKCS#8, PEM or DER) that the service proves itself with; `--new-key` makes one. Nodes have its hash
    /// on their measured command line. No access for anybody but the service's user and root.
    pub identity_key: PathBuf,
    /// Where keys come from: this, or `master_secret_file`, and never both.
    pub key_service: Option<KeyServiceConfig>,
    /// For small set-ups: derive keys in this process from this file; see [`latchkey_keys::MasterSecret`].
    pub master_secret_file: Option<PathBuf>,
    /// What all control planes of the cluster share, as `latchkey init` left it in the cluster's directory (`control-plane.json`);
    /// see [`latchkey_cluster_store::control_plane`]. Without it a cluster in an API server gets no more control planes.
    pub control_plane_files: Option<PathBuf>,
    /// A directory with what join and key service read where both run on each control plane (`latchkey init --services inside`): the
    /// tickets of further control planes bring it there. Without it none gets them.
    pub service_files: Option<PathBuf>,
    /// The directory with what vendors of confidential hardware publish (`snp/`; see the crate `latchkey-collateral`): what a policy's
    /// section `snp` is judged by. Read anew within half a minute of each change. Without it a cluster in its API server has its collateral there
    /// (`latchkey collateral install`), and where there is none, such a policy admits nobody.
    pub collateral: Option<PathBuf>,
    /// A Unix socket on which root of this machine, and nobody else, shuts a machine out at once (`latchkey node deny`), whatever is
    /// heard of the cluster's store. Its directory must be one of the service's user, mode 0700. Without it there is none.
    pub denial_socket: Option<PathBuf>,
    /// Bounds on what peers can take; each has a default.
    #[serde(default)]
    pub limits: Limits,
}

/// Another place for a cluster than a directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StoreConfig {
    /// The API server of the cluster itself; see the crate `latchkey-kubernetes-store`.
    Kubernetes(KubernetesConfig),
}

/// How to reach the API server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesConfig {
    /// A kubeconfig with a client certificate or a token; no access for anybody but the service's user and root.
    pub kubeconfig: PathBuf,
    /// Seconds for which policy, denials and records are decided by without a newer complete listing of them; beyond that nobody is let
    /// in. 15 to 3600; default 30.
    #[serde(default = "unheard_seconds")]
    pub unheard_seconds: u32,
}

fn unheard_seconds() -> u32 {
    u32::try_from(UNHEARD.as_secs()).unwrap_or(u32::MAX)
}

/// Where the cluster is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterPlace {
    /// In this directory.
    Directory(PathBuf),
    /// In its API server.
    Kubernetes(KubernetesConfig),
}

/// How to reach the key service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyServiceConfig {
    /// `host:port`.
    pub address: String,
    /// The name (or IP address) its certificate must have.
    pub server_name: String,
    /// PEM: the authorities its certificate must come from.
    pub ca: PathBuf,
    /// PEM: this service's certificate, then its intermediates.
    pub certificate: PathBuf,
    /// PEM: its private key; no access for anybody but the service's user and root.
    pub private_key: PathBuf,
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no closed JSON of the schema, or has a value out of range.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// Both places of the cluster, or none.
    #[error("name exactly one of `cluster_directory` and `store`; there are {got}")]
    ClusterPlaces {
        /// How many are named.
        got: usize,
    },
    /// Both sources of keys, or none.
    #[error("name exactly one of `key_service` and `master_secret_file`; there are {got}")]
    KeySources {
        /// How many are named.
        got: usize,
    },
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        check_admin(self.admin_listen, self.metrics.as_ref())?;
        self.limits.check()?;
        if let Some(StoreConfig::Kubernetes(config)) = &self.store {
            check_range("store.kubernetes.unheard_seconds", config.unheard_seconds, (15, 3600))?;
        }
        let got = usize::from(self.key_service.is_some()) + usize::from(self.master_secret_file.is_some());
        if got != 1 {
            return Err(ConfigError::KeySources { got });
        }
        self.place().map(drop)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let mut paths = vec![&mut self.identity_key];
        paths.extend(&mut self.cluster_directory);
        if let Some(StoreConfig::Kubernetes(KubernetesConfig { kubeconfig, .. })) = &mut self.store {
            paths.push(kubeconfig);
        }
        if let Some(KeyServiceConfig { ca, certificate, private_key, .. }) = &mut self.key_service {
            paths.extend([ca, certificate, private_key]);
        }
        paths.extend(&mut self.master_secret_file);
        paths.extend(&mut self.control_plane_files);
        paths.extend(&mut self.service_files);
        paths.extend(&mut self.collateral);
        paths.extend(self.metrics.iter_mut().flat_map(MetricsConfig::paths));
        paths.extend(&mut self.denial_socket);
        paths
    }
}

impl Config {
    /// How old may be what an API server told of the cluster, where it is kept in one.
    pub fn unheard(&self) -> Option<Duration> {
        let StoreConfig::Kubernetes(config) = self.store.as_ref()?;
        Some(Duration::from_secs(config.unheard_seconds.into()))
    }

    /// Where the cluster is kept.
    ///
    /// # Errors
    /// [`ConfigError::ClusterPlaces`].
    pub fn place(&self) -> Result<ClusterPlace, ConfigError> {
        match (&self.cluster_directory, &self.store) {
            (Some(directory), None) => Ok(ClusterPlace::Directory(directory.clone())),
            (None, Some(StoreConfig::Kubernetes(config))) => Ok(ClusterPlace::Kubernetes(config.clone())),
            (None, None) => Err(ConfigError::ClusterPlaces { got: 0 }),
            (Some(_), Some(_)) => Err(ConfigError::ClusterPlaces { got: 2 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const EMBEDDED: &str = include_str!("../join-service.embedded.example.json");

    fn load(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_examples_are_accepted_and_show_the_defaults() {
        let config = load(include_str!("../join-service.example.json")).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert!(config.denial_socket.unwrap().is_absolute());
        assert!(config.key_service.unwrap().ca.is_absolute());
        let config = load(EMBEDDED).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert!(config.master_secret_file.is_some());
        let on_control_planes = load(include_str!("../../../image/kubernetes/join-service.json")).unwrap();
        assert!(on_control_planes.service_files.is_some() && on_control_planes.place().is_ok());
    }

    #[test]
    fn exactly_one_place_of_the_cluster_is_taken() {
        let kubernetes = include_str!("../join-service.kubernetes.example.json");
        let place = load(kubernetes).unwrap().place().unwrap();
        assert!(matches!(place, ClusterPlace::Kubernetes(config) if config.kubeconfig.is_absolute()));
        let both = kubernetes.replace("\"store\"", "\"cluster_directory\": \"cluster\", \"store\"");
        assert!(load(&both).unwrap_err().contains("there are 2"));
        let neither = kubernetes.replace("\"store\"", "\"limits\"").replace("\"kubernetes\"", "\"threads\"");
        assert!(load(&neither).is_err());
        for (seconds, taken) in [(14, false), (15, true), (3600, true), (3601, false)] {
            let text = kubernetes.replace("\"unheard_seconds\": 30", &format!("\"unheard_seconds\": {seconds}"));
            assert_eq!(load(&text).is_ok(), taken, "{text}");
        }
        assert_eq!((load(kubernetes).unwrap().unheard(), load(EMBEDDED).unwrap().unheard()), (Some(UNHEARD), None));
        assert_eq!(load(&kubernetes.replace(", \"unheard_seconds\": 30", "")).unwrap().unheard(), Some(UNHEARD));
        assert!(load(&kubernetes.replace("\"kubeconfig\"", "\"context\": \"x\", \"kubeconfig\"")).is_err());
    }

    #[test]
    fn exactly_one_source_of_keys_is_taken() {
        let none = EMBEDDED.replace("\"master_secret_file\"", "\"key_service\"");
        assert!(load(&none).is_err());
        let neither = EMBEDDED.replace(
            "\"master_secret_file\": \"/run/credentials/latchkey-join-service.service/master.json\"",
            "\"limits\": {}",
        );
        assert!(load(&neither).unwrap_err().contains("exactly one"), "{neither}");
        let both = include_str!("../join-service.example.json")
            .replace("\"key_service\"", "\"master_secret_file\": \"m.json\", \"key_service\"");
        assert!(load(&both).unwrap_err().contains("there are 2"));
    }

    #[test]
    fn values_that_switch_a_protection_off_are_refused() {
        for (from, to) in [
            ("\"schema\": 1", "\"schema\": 2"),
            ("\"schema\": 1", "\"schema\": 1, \"debug\": true"),
            ("127.0.0.1:9011", "0.0.0.0:9011"),
            ("\"schema\": 1", "\"schema\": 1, \"limits\": {\"connections\": 0}"),
            ("\"schema\": 1", "\"schema\": 1, \"limits\": {\"connection_burst_per_address\": 0}"),
            ("\"schema\": 1", "\"schema\": 1, \"limits\": {\"handshake_seconds\": 301}"),
            ("\"schema\": 1", "\"schema\": 1, \"limits\": {\"handshake_second\": 30}"),
        ] {
            let text = EMBEDDED.replace(from, to);
            assert_ne!(text, EMBEDDED, "{from}");
            assert!(load(&text).is_err(), "{text}");
        }
    }
}
