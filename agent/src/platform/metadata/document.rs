//! The metadata document: closed, versioned JSON.
//!
//! ```json
//! {"version": 1, "node_name": "worker-1", "role": "worker", "init_secret_hash": "$2b$10$…", "peers": ["10.0.2.2:30090"]}
//! ```
//!
//! Only `version` is required.

use std::fmt;

use latchkey_disk::NodeName;
use serde::Deserialize;

use super::MetadataError;
use latchkey_node_config::{Endpoint, RoleHint};

/// The most peers a document may name.
pub const MAX_PEERS: usize = 16;

/// What metadata says: requests, never facts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceMetadata {
    /// The name this node asks for: a lower-case DNS name, with or without dots (RFC 1123).
    pub node_name: Option<String>,
    /// The role it asks for.
    pub role: Option<RoleHint>,
    /// The hash of the secret that founds a cluster on this node; without it, nobody can.
    pub init_secret_hash: Option<InitSecretHash>,
    /// More addresses of join services to try.
    pub peers: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    node_name: Option<String>,
    role: Option<String>,
    init_secret_hash: Option<String>,
    #[serde(default)]
    peers: Vec<String>,
}

impl InstanceMetadata {
    /// Reads a document.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let document: Document = serde_json::from_slice(bytes).map_err(|e| MetadataError::Schema(e.to_string()))?;
        if document.version != 1 {
            return Err(MetadataError::Field { field: "version", expected: "1" });
        }
        Ok(Self {
            node_name: document.node_name.map(node_name).transpose()?,
            role: document.role.map(|role| self::role(&role)).transpose()?,
            init_secret_hash: document.init_secret_hash.map(InitSecretHash::parse).transpose()?,
            peers: peers(&document.peers)?,
        })
    }

    /// The same of what an operator may have given an instance: nothing, or nothing but white space, is no document.
    pub(super) fn given(document: Option<Vec<u8>>) -> Result<Option<Self>, MetadataError> {
        let document = document.filter(|document| !document.trim_ascii().is_empty());
        document.map(|document| Self::parse(&document)).transpose()
    }

    /// Whether a document names its node, so that nobody else is asked.
    pub(super) fn names_its_node(of: Option<&Self>) -> bool {
        of.is_some_and(|metadata| metadata.node_name.is_some())
    }

    /// With the name that others have for this instance, where it has none of its own. Such names are for people and may be
    /// anything: what is no node's name is passed over, and the node then has one of its own. So is `null`: it is what tools and YAML have for a
    /// name that nobody filled in.
    pub(super) fn named(of: Option<Self>, name: Option<&str>) -> Option<Self> {
        let name = name.map(|name| name.trim().to_ascii_lowercase());
        let name = name.filter(|name| name != "null" && name.parse::<NodeName>().is_ok());
        match (of, name) {
            (None, None) => None,
            (of, node_name) => Some(Self { node_name, ..of.unwrap_or_default() }),
        }
    }
}

fn node_name(name: String) -> Result<String, MetadataError> {
    let expected = "a DNS name: lower-case letters, digits, hyphens and dots, at most 63 between two dots, 253 in all";
    if name.parse::<NodeName>().is_ok() { Ok(name) } else { Err(MetadataError::Field { field: "node_name", expected }) }
}

fn role(role: &str) -> Result<RoleHint, MetadataError> {
    match role {
        "control-plane" => Ok(RoleHint::ControlPlane),
        "worker" => Ok(RoleHint::Worker),
        _ => Err(MetadataError::Field { field: "role", expected: "control-plane or worker" }),
    }
}

fn peers(peers: &[String]) -> Result<Vec<Endpoint>, MetadataError> {
    let parsed: Option<Vec<_>> = peers.iter().take(MAX_PEERS + 1).map(|peer| Endpoint::parse(peer)).collect();
    let few = parsed.filter(|peers| peers.len() <= MAX_PEERS);
    few.ok_or(MetadataError::Field { field: "peers", expected: "at most 16 times HOST:PORT" })
}

/// A bcrypt hash in its usual text form, `$2b$COST$SALT-AND-HASH`, with a cost this machine can pay.
///
/// Metadata is untrusted: a cost of 31 would keep the node busy for days for every attempt of a stranger.
#[derive(Clone, PartialEq, Eq)]
pub struct InitSecretHash(String);

/// Accepted costs: a cheaper hash can be searched, a dearer one keeps the node busy for minutes.
pub const COSTS: std::ops::RangeInclusive<u32> = 8..=13;

impl InitSecretHash {
    fn parse(text: String) -> Result<Self, MetadataError> {
        let expected = "a bcrypt hash ($2b$…, 60 characters) with a cost from 8 to 13";
        if is_bcrypt(&text) {
            Ok(Self(text))
        } else {
            Err(MetadataError::Field { field: "init_secret_hash", expected })
        }
    }

    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_bcrypt(text: &str) -> bool {
    let mut parts = text.split('$');
    let head = (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
    let (Some(""), Some("2a" | "2b" | "2y"), Some(cost), Some(rest), None) = head else { return false };
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'/';
    cost.len() == 2
        && cost.bytes().all(|b| b.is_ascii_digit())
        && cost.parse().is_ok_and(|cost| COSTS.contains(&cost))
        && rest.len() == 53
        && rest.bytes().all(base64)
}

impl fmt::Debug for InitSecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hash can be attacked offline; logs are no place for it.
        f.write_str("InitSecretHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "$2b$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";

    fn parse(json: &str) -> Result<InstanceMetadata, MetadataError> {
        InstanceMetadata::parse(json.as_bytes())
    }

    #[test]
    fn a_full_document_is_read() {
        let metadata = parse(&format!(
            r#"{{"version":1,"node_name":"worker-1","role":"worker","init_secret_hash":"{HASH}","peers":["10.0.2.2:30090"]}}"#
        ))
        .unwrap();
        assert_eq!(metadata.node_name.as_deref(), Some("worker-1"));
        assert_eq!(metadata.role, Some(RoleHint::Worker));
        assert_eq!(metadata.init_secret_hash.as_ref().unwrap().as_str(), HASH);
        assert_eq!(metadata.peers, [Endpoint::parse("10.0.2.2:30090").unwrap()]);
        assert!(!format!("{metadata:?}").contains(HASH), "the hash is not for logs");
    }

    #[test]
    fn a_name_with_dots_is_a_name() {
        for name in ["edge-1.plant.example", "ip-10-0-2-15.eu-central-1.compute.internal", "a.b", &["a"; 127].join(".")]
        {
            let metadata = parse(&format!(r#"{{"version":1,"node_name":"{name}"}}"#)).unwrap();
            assert_eq!(metadata.node_name.as_deref(), Some(name));
        }
    }

    #[test]
    fn a_name_that_nobody_filled_in_is_none() {
        for name in ["null", "Null", " NULL\n", "~", "", "no name at all"] {
            assert_eq!(InstanceMetadata::named(None, Some(name)).and_then(|it| it.node_name), None, "{name:?}");
        }
        let named = InstanceMetadata::named(None, Some("Edge-7")).and_then(|it| it.node_name);
        assert_eq!(named.as_deref(), Some("edge-7"));
    }

    #[test]
    fn unknown_fields_versions_and_forms_refuse() {
        let documents = [
            "",
            "{}",
            r#"{"version":2}"#,
            r#"{"version":1,"trusted":true}"#,
            r#"{"version":1,"version":1}"#,
            r#"{"version":1}{"#,
            r#"{"version":1,"node_name":""}"#,
            r#"{"version":1,"node_name":"Worker"}"#,
            r#"{"version":1,"node_name":"a..b"}"#,
            r#"{"version":1,"node_name":"a.b."}"#,
            r#"{"version":1,"node_name":"a.-b"}"#,
            r#"{"version":1,"node_name":"-a"}"#,
            r#"{"version":1,"node_name":"a\nb"}"#,
            r#"{"version":1,"role":"admin"}"#,
            r#"{"version":1,"peers":["x"]}"#,
            r#"{"version":1,"init_secret_hash":"secret"}"#,
        ];
        for document in documents {
            assert_eq!(parse(document).expect_err(document).code().as_str(), "metadata-invalid");
        }
        for long in ["a".repeat(64), ["a"; 128].join(".")] {
            assert!(parse(&format!(r#"{{"version":1,"node_name":"{long}"}}"#)).is_err());
        }
        let many = format!(r#"{{"version":1,"peers":[{}]}}"#, vec![r#""a:1""#; MAX_PEERS + 1].join(","));
        assert!(parse(&many).is_err());
    }

    #[test]
    fn a_hash_that_would_keep_the_node_busy_for_days_is_refused() {
        assert!(is_bcrypt(HASH));
        for cost in ["31", "14", "07", "+9", "1", "010"] {
            assert!(!is_bcrypt(&HASH.replace("$10$", &format!("${cost}$"))), "{cost}");
        }
        assert!(!is_bcrypt(&HASH.replace("2b", "2x")));
        assert!(!is_bcrypt(&format!("{HASH}x")));
        assert!(!is_bcrypt(&format!("{HASH}$")));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = InstanceMetadata::parse(&bytes);
        }
    }
}
