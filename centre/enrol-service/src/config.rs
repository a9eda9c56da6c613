//! The configuration file: closed JSON, checked as a whole before anything is opened.

use latchkey_attesting_service::Limits;
use latchkey_centre_service::CentreConfig;
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, MetricsConfig, check_admin};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `enrol-service.example.json` shows every field.
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
    /// The service's directory; see [`latchkey_cluster_store::registration`].
    pub directory: PathBuf,
    /// The P-256 key (PKCS#8, PEM or DER) that the service proves itself with; `--new-key` makes one. Nodes have its hash
    /// on their measured command line. No access for anybody but the service's user and root.
    pub identity_key: PathBuf,
    /// The directory with what vendors of confidential hardware publish; see the crate `latchkey-collateral`. Without it a policy
    /// that demands a processor's word admits nobody.
    pub collateral: Option<PathBuf>,
    /// Where configuration database and cluster manager are, and who this service is to them.
    pub centre: CentreConfig,
    /// Bounds on what peers can take; each has a default.
    #[serde(default)]
    pub limits: Limits,
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigFileError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        check_admin(self.admin_listen, self.metrics.as_ref())?;
        self.limits.check()
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let own = [&mut self.directory, &mut self.identity_key].into_iter().chain(self.collateral.as_mut());
        let metrics = self.metrics.iter_mut().flat_map(MetricsConfig::paths);
        own.chain(metrics).chain(self.centre.paths()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../enrol-service.example.json");

    fn load(text: &str) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_is_accepted_and_shows_the_defaults() {
        let config = load(EXAMPLE).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert!(config.directory.is_absolute() && config.centre.password_file.is_absolute());
    }

    #[test]
    fn values_that_switch_a_protection_off_are_refused() {
        for (from, to) in [
            ("\"schema\": 1", "\"schema\": 2"),
            ("\"schema\": 1", "\"schema\": 1, \"debug\": true"),
            ("127.0.0.1:9031", "0.0.0.0:9031"),
            ("\"handshake_seconds\": 30", "\"handshake_seconds\": 301"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            assert!(load(&text).is_err(), "{text}");
        }
    }
}
