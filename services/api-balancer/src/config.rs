//! The configuration file: closed JSON, checked as a whole before anything is opened.

use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, check_loopback};
use latchkey_service_runtime::pages::PagesConfig;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `api-balancer.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// Where the node's programs find the API server: an address of loopback. Port 0 lets the kernel choose; the READY line says
    /// what it chose.
    pub listen: SocketAddr,
    /// The list of API servers; see [`crate::targets`]. Kept up to date here.
    pub api_servers: PathBuf,
    /// PEM: the cluster's authority. There may be none yet: then whoever takes a connection counts as ready.
    pub authority: PathBuf,
    /// PEM: the kubelet's certificate and key. There may be none yet: then the list stays as it is.
    pub client: PathBuf,
    /// Where its own `/metrics` and `/healthz` are; without it nowhere.
    pub pages: Option<PagesConfig>,
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigFileError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigFileError> {
        check_loopback("listen", self.listen)?;
        self.pages.as_ref().map_or(Ok(()), PagesConfig::check)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let own = [&mut self.api_servers, &mut self.authority, &mut self.client];
        own.into_iter().chain(self.pages.iter_mut().flat_map(PagesConfig::paths)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const EXAMPLE: &str = include_str!("../api-balancer.example.json");

    fn load(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_is_accepted_and_nothing_that_lets_other_machines_in() {
        assert_eq!(load(EXAMPLE).unwrap().listen.port(), 7445);
        assert!(load(&EXAMPLE.replace("127.0.0.1", "[::1]")).is_ok());
        for (from, to) in
            [("127.0.0.1", "0.0.0.0"), ("127.0.0.1", "10.0.0.1"), ("1,", "1, \"debug\": 1,"), ("1,", "2,")]
        {
            assert!(load(&EXAMPLE.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
