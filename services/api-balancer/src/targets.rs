//! The list of API servers: a file that the agent writes first and this program keeps, and what the cluster itself says.
//!
//! ```json
//! { "version": 1, "api_servers": ["10.0.0.1:6443", "[fd00::2]:6443"] }
//! ```

use latchkey_durable_file::{Existing, ReadError, put, read_plain};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The most API servers of a cluster: etcd has seven members at most in practice.
pub const MAX_TARGETS: usize = 16;
/// More than a list of them.
const MAX_FILE: usize = 16 * 1024;
const VERSION: u32 = 1;

/// One to [`MAX_TARGETS`] API servers, each once, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(Vec<SocketAddr>);

/// Why a list is none.
#[derive(Debug, thiserror::Error)]
pub enum TargetsError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// Not the closed JSON of this version.
    #[error("{0}")]
    Malformed(String),
    /// No API server, or more than there can be.
    #[error("a list names 1 to {MAX_TARGETS} API servers, and this one {0}")]
    Count(usize),
    /// An address where no control plane can be.
    #[error("{0} is no address of a control plane")]
    Address(SocketAddr),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    api_servers: Vec<SocketAddr>,
}

/// `Endpoints` of the core API, as far as it is needed.
#[derive(Deserialize)]
struct Endpoints {
    #[serde(default)]
    subsets: Vec<Subset>,
}

#[derive(Deserialize)]
struct Subset {
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Address {
    ip: IpAddr,
}

#[derive(Deserialize)]
struct Port {
    #[serde(default)]
    name: String,
    port: u16,
}

impl Targets {
    /// Checks how many there are.
    ///
    /// # Errors
    /// [`TargetsError::Count`].
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, TargetsError> {
        let all: BTreeSet<SocketAddr> = addresses.into_iter().take(MAX_TARGETS + 1).collect();
        if (1..=MAX_TARGETS).contains(&all.len()) {
            Ok(Self(all.into_iter().collect()))
        } else {
            Err(TargetsError::Count(all.len()))
        }
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().copied()
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`TargetsError`].
    pub fn read(path: &Path) -> Result<Self, TargetsError> {
        let failed = |source| TargetsError::Io { path: path.to_owned(), source };
        let text = File::open(path).map_err(failed).and_then(|file| {
            read_plain(&file, MAX_FILE).map_err(|error| match error {
                ReadError::Io(source) => failed(source),
                other => TargetsError::Malformed(format!("{} {other}", path.display())),
            })
        })?;
        let content: Content = serde_json::from_slice(&text)
            .map_err(|error| TargetsError::Malformed(format!("{}: {error}", path.display())))?;
        if content.version != VERSION {
            let version = content.version;
            return Err(TargetsError::Malformed(format!("version {version}; this program knows {VERSION}")));
        }
        Self::new(content.api_servers)
    }

    /// Replaces the file at `path`: readers see the old list or the new one, also after a power cut.
    ///
    /// # Errors
    /// [`TargetsError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), TargetsError> {
        let content = Content { version: VERSION, api_servers: self.0.clone() };
        let text = serde_json::to_vec_pretty(&content).unwrap_or_default();
        put(path, 0o600, &text, Existing::Replace).map_err(|source| TargetsError::Io { path: path.to_owned(), source })
    }

    /// What the cluster says, in the words of its API. An API server that lists none, or addresses that lead back to this machine,
    /// is not believed.
    ///
    /// # Errors
    /// [`TargetsError`].
    pub fn published(json: &[u8]) -> Result<Self, TargetsError> {
        let endpoints: Endpoints =
            serde_json::from_slice(json).map_err(|error| TargetsError::Malformed(error.to_string()))?;
        let targets = endpoints.subsets.iter().flat_map(|subset| {
            let ports = subset.ports.iter().filter(|port| port.name == "https" && port.port != 0);
            ports.flat_map(|port| subset.addresses.iter().map(|address| SocketAddr::new(address.ip, port.port)))
        });
        let targets = Self::new(targets)?;
        let wrong = targets.iter().find(|target| !is_elsewhere(target.ip()));
        match wrong {
            Some(wrong) => Err(TargetsError::Address(wrong)),
            None => Ok(targets),
        }
    }
}

fn is_elsewhere(address: IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_written_and_read_and_a_wrong_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api-servers.json");
        let list = Targets::new(["10.0.0.2:6443".parse().unwrap(), "[fd00::2]:6443".parse().unwrap()]).unwrap();
        list.write(&path).unwrap();
        list.write(&path).unwrap();
        assert_eq!(Targets::read(&path).unwrap(), list);
        for text in [
            "",
            r#"{"version":2,"api_servers":["10.0.0.1:6443"]}"#,
            r#"{"version":1,"api_servers":[]}"#,
            r#"{"version":1,"api_servers":["api.example:6443"]}"#,
            r#"{"version":1,"api_servers":["10.0.0.1:6443"],"more":1}"#,
            &" ".repeat(20_000),
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(Targets::read(&path).is_err(), "{text}");
        }
    }

    #[test]
    fn of_the_clusters_own_list_only_what_can_be_a_control_plane_is_taken() {
        let list = |addresses: &str, port: &str| {
            format!(r#"{{"kind":"Endpoints","subsets":[{{"addresses":[{addresses}],"ports":[{port}]}}]}}"#)
        };
        let https = r#"{"name":"https","port":6443,"protocol":"TCP"}"#;
        let good = list(r#"{"ip":"10.0.0.1"},{"ip":"fd00::1"},{"ip":"10.0.0.1"}"#, https);
        let found: Vec<_> = Targets::published(good.as_bytes()).unwrap().iter().collect();
        assert_eq!(found, ["10.0.0.1:6443".parse().unwrap(), "[fd00::1]:6443".parse::<SocketAddr>().unwrap()]);
        let many: Vec<String> = (0..=MAX_TARGETS).map(|last| format!(r#"{{"ip":"10.0.0.{last}"}}"#)).collect();
        for bad in [
            list("", https),
            list(r#"{"ip":"10.0.0.1"}"#, r#"{"name":"http","port":80}"#),
            list(r#"{"ip":"127.0.0.1"}"#, https),
            list(r#"{"ip":"10.0.0.1"},{"ip":"::"}"#, https),
            list(r#"{"ip":"api.example"}"#, https),
            list(&many.join(","), https),
            "[]".to_owned(),
        ] {
            assert!(Targets::published(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
