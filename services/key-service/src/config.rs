//! The configuration file: closed JSON, checked as a whole before anything is opened.

use latchkey_connection_limits::Rate;
use latchkey_keys::{ClusterId, KeyClass};
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, MetricsConfig, check_admin, check_range};
use latchkey_service_runtime::connections::ConnectionLimits;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::callers::CallerName;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `key-service.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// Address and port of the gRPC service. Port 0 lets the kernel choose; the log says what it chose.
    pub listen: SocketAddr,
    /// Address and port of `/metrics` and `/healthz`, plain HTTP; a loopback address.
    pub admin_listen: SocketAddr,
    /// The same pages for other machines, over TLS and for whoever shows a token or a certificate. Without it there are none.
    pub metrics: Option<MetricsConfig>,
    /// The master secret's file; see [`latchkey_keys::MasterSecret`] for format and required permissions.
    pub master_secret: PathBuf,
    /// The cluster that the master secret has to be of. Without it nothing says so until a cluster's join service asks: name it as soon
    /// as `latchkey init` has made the cluster.
    pub cluster: Option<ClusterConfig>,
    /// Files of mutual TLS.
    pub tls: TlsFiles,
    /// Who may ask for what. Empty: nobody for anything.
    pub callers: Vec<CallerRule>,
    /// Bounds on what peers can take; each has a default.
    #[serde(default)]
    pub limits: Limits,
}

/// What is public of a cluster: fields of its `cluster.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// 64 hexadecimal digits.
    pub cluster_id: ClusterId,
    /// 64 hexadecimal digits.
    #[serde(deserialize_with = "hex_32")]
    pub measurement_salt: [u8; 32],
    /// The version of the master secret that the cluster was begun with.
    pub key_version: u32,
}

fn hex_32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let (text, mut bytes) = (String::deserialize(deserializer)?, [0; 32]);
    hex::decode_to_slice(&text, &mut bytes).map_err(|_| D::Error::custom("not 64 hexadecimal digits"))?;
    Ok(bytes)
}

/// PEM files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The service's certificate, then its intermediates.
    pub certificate: PathBuf,
    /// Its private key (PKCS#8, SEC1 or PKCS#1), under the same conditions as the master secret: a regular file, owned by
    /// the service's user or root, no access for others.
    pub private_key: PathBuf,
    /// The authorities that callers' certificates come from. Not the system's: whoever is signed by these gets as far as
    /// the rules below.
    pub client_ca: PathBuf,
}

/// What one caller may do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerRule {
    /// A subject alternative name of the caller's certificate: a DNS name in lower case, or a URI such as a SPIFFE id.
    pub name: CallerName,
    /// The classes of keys it may have: `state-disk`, `measurement-secret`. Empty: none.
    pub key_classes: BTreeSet<KeyClass>,
    /// Sustained rate; default 600.
    #[serde(default = "CallerRule::default_requests_per_minute")]
    pub requests_per_minute: u32,
    /// How many requests may come at once after a pause; default 100.
    #[serde(default = "CallerRule::default_burst")]
    pub burst: u32,
}

impl CallerRule {
    pub(crate) fn rate(&self) -> Rate {
        Rate { per_minute: self.requests_per_minute, burst: self.burst }
    }

    const fn default_requests_per_minute() -> u32 {
        600
    }

    const fn default_burst() -> u32 {
        100
    }
}

/// Bounds on what peers can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at a time, handshaking ones included; when all are taken, whoever has shown least of the network that holds
    /// most gives way. A quarter is only for networks that callers came from before. Default 256.
    pub connections: u32,
    /// The same from one IP address (one /64 of IPv6). Default 64.
    pub connections_per_address: u32,
    /// Seconds from the TCP connection to its first byte. Default 3.
    pub first_byte_seconds: u32,
    /// Seconds from the TCP connection to the end of the TLS handshake. Default 10.
    pub handshake_seconds: u32,
    /// Seconds that running calls get to end after SIGTERM or SIGINT. Default 10.
    pub shutdown_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 64,
            first_byte_seconds: 3,
            handshake_seconds: 10,
            shutdown_seconds: 10,
        }
    }
}

impl Limits {
    /// New connections of one address, far more than a caller needs that keeps its connection.
    const HOST_RATE: Rate = Rate { per_minute: 600, burst: 128 };

    /// TLS handshakes, each of which costs a signature.
    const HANDSHAKE_RATE: Rate = Rate { per_minute: 30_000, burst: 1000 };

    pub(crate) fn of_connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            total: self.connections,
            per_host: self.connections_per_address,
            host_rate: Self::HOST_RATE,
            handshake_rate: Self::HANDSHAKE_RATE,
            first_byte: Duration::from_secs(self.first_byte_seconds.into()),
        }
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        check_range("limits.connections", self.connections, (1, 10_000))?;
        check_range("limits.connections_per_address", self.connections_per_address, (1, 10_000))?;
        check_range("limits.first_byte_seconds", self.first_byte_seconds, (1, 60))?;
        check_range("limits.handshake_seconds", self.handshake_seconds, (1, 60))?;
        check_range("limits.shutdown_seconds", self.shutdown_seconds, (1, 300))
    }
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no closed JSON of the schema, or has a value out of range.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// Two rules for one name: which one counts would depend on their order.
    #[error("`callers` has two rules for {name}; join them into one")]
    CallerTwice {
        /// The name.
        name: CallerName,
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
        let mut names = BTreeSet::new();
        for rule in &self.callers {
            check_range("callers[].requests_per_minute", rule.requests_per_minute, (1, 1_000_000))?;
            check_range("callers[].burst", rule.burst, (1, 100_000))?;
            if !names.insert(&rule.name) {
                return Err(ConfigError::CallerTwice { name: rule.name.clone() });
            }
        }
        Ok(())
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let TlsFiles { certificate, private_key, client_ca } = &mut self.tls;
        let own = [&mut self.master_secret, certificate, private_key, client_ca];
        own.into_iter().chain(self.metrics.iter_mut().flat_map(MetricsConfig::paths)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const VALID: &str = r#"{
        "schema": 1, "listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "master_secret": "master.json",
        "tls": { "certificate": "server.pem", "private_key": "/etc/server.key", "client_ca": "ca.pem" },
        "callers": [{ "name": "join.example", "key_classes": ["state-disk"] }]
    }"#;

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes())
    }

    #[test]
    fn the_example_is_accepted_and_shows_the_defaults() {
        let config = load(include_str!("../key-service.example.json")).unwrap();
        let defaults = Limits::default();
        assert_eq!(format!("{:?}", config.limits), format!("{defaults:?}"));
        assert_eq!((config.callers[0].requests_per_minute, config.callers[0].burst), (600, 100));
        assert_eq!((config.callers[1].requests_per_minute, config.callers[1].burst), (600, 100));
        load(include_str!("../../../image/kubernetes/key-service.json")).unwrap();
    }

    #[test]
    fn relative_paths_are_relative_to_the_file() {
        let config = load(VALID).unwrap();
        assert!(config.master_secret.is_absolute() && config.master_secret.ends_with("master.json"));
        assert_eq!(config.tls.private_key, Path::new("/etc/server.key"));
    }

    #[test]
    fn an_unknown_or_missing_field_is_refused_by_name() {
        for (from, to, expected) in [
            ("\"schema\": 1", "\"schema\": 1, \"debug\": true", "unknown field `debug`"),
            ("\"client_ca\"", "\"ca\"", "unknown field `ca`"),
            ("\"key_classes\"", "\"classes\"", "unknown field `classes`"),
            (", \"key_classes\": [\"state-disk\"]", "", "missing field `key_classes`"),
            ("\"schema\": 1,", "", "missing field `schema`"),
            ("[\"state-disk\"]", "[\"*\"]", "unknown variant `*`"),
            ("join.example", "*.example", "DNS name"),
            ("join.example", "", "DNS name"),
        ] {
            let error = load(&VALID.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn values_that_switch_a_protection_off_are_refused() {
        let with_limits =
            |limits: &str| VALID.replace("\"callers\"", &format!("\"limits\": {{{limits}}}, \"callers\""));
        let rule = |more: &str| VALID.replace("\"name\"", &format!("{more}, \"name\""));
        for text in [
            VALID.replace("\"schema\": 1", "\"schema\": 2"),
            VALID.replace("\"admin_listen\": \"127.0.0.1:0\"", "\"admin_listen\": \"0.0.0.0:9001\""),
            with_limits("\"connections\": 0"),
            with_limits("\"connections_per_address\": 10001"),
            with_limits("\"handshake_seconds\": 0"),
            with_limits("\"shutdown_seconds\": 301"),
            rule("\"burst\": 0"),
            rule("\"requests_per_minute\": 4294967295"),
        ] {
            assert!(load(&text).is_err(), "{text}");
        }
        let twice = "{ \"name\": \"join.example\", \"key_classes\": [] }, { \"name\"";
        let error = load(&VALID.replace("{ \"name\"", twice)).unwrap_err();
        assert!(matches!(error, ConfigError::CallerTwice { .. }), "{error}");
    }
}
