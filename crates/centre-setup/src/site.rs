//! What an operator says of the site.

use latchkey_factory_plus::{EdgeImages, ImagesError};
use serde::{Deserialize, Serialize};

/// A site, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The Kerberos realm.
    pub realm: String,
    /// The domain that edges find the KDC in: `kdc.DOMAIN`, `kadmin.DOMAIN`.
    pub domain: String,
    /// Where the KDC is instead, `HOST` or `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kdc: Option<String>,
    /// Where its administration is instead, `HOST` or `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kadmin: Option<String>,
    /// The authorities of the services' certificates, as PEM; empty where their URLs are plain http.
    #[serde(default)]
    pub authority: String,
    /// The container images of the programs at edges.
    #[serde(default)]
    pub images: EdgeImages,
    /// What Sparkplug groups begin with: `PREFIX-NAME`.
    pub prefix: String,
    /// The name of the first administrator, without the realm.
    pub administrator: String,
    /// Where services are, as edges and browsers reach them.
    pub urls: Urls,
}

/// Base URLs, each an origin of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Urls {
    /// The directory.
    pub directory: String,
    /// The configuration database.
    pub config_db: String,
    /// The authorisation service.
    pub auth: String,
    /// The git server.
    pub git: String,
    /// The cluster manager.
    pub cluster_manager: String,
    /// The MQTT broker: `mqtt://` or `mqtts://`.
    pub mqtt: String,
}

/// Why a site is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// A word that would mean something else where it is put in.
    #[error("`{field}` is {got:?}; it must have {wanted}")]
    Word {
        /// The field.
        field: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        got: String,
    },
    /// No base URL.
    #[error("`urls.{field}` is {got:?}; it must be {schemes} and a host, perhaps a port, and nothing behind them")]
    Url {
        /// The field.
        field: &'static str,
        /// The schemes.
        schemes: &'static str,
        /// What it is.
        got: String,
    },
    /// No host, or no port.
    #[error("`{field}` is {got:?}; it must be a host, perhaps with a port")]
    Host {
        /// The field.
        field: &'static str,
        /// What it is.
        got: String,
    },
    /// Authorities that are none, or are missing.
    #[error("`authority` {0}")]
    Authority(&'static str),
    /// No container images.
    #[error("{0}")]
    Images(#[from] ImagesError),
    /// Two services with one URL: clients ask for `/token` at the root of each.
    #[error("`urls` has {0:?} twice; each service needs an origin of its own")]
    Twice(String),
}

/// The longest word.
const LONGEST: usize = 253;
const HTTP: [&str; 2] = ["https://", "http://"];
const MQTT: [&str; 2] = ["mqtts://", "mqtt://"];

impl Site {
    /// Refuses what would mean something else in principals, topics, YAML or URLs.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn check(&self) -> Result<(), SiteError> {
        let domain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let realm = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        word("realm", &self.realm, "capital letters, digits, hyphens and dots, a letter first", realm)?;
        word("domain", &self.domain, "small letters, digits, hyphens and dots, a letter first", domain)?;
        word("prefix", &self.prefix, "letters, digits and underscores, a letter first", name)?;
        word("administrator", &self.administrator, "letters, digits and underscores, a letter first", name)?;
        for (field, place) in [("kdc", &self.kdc), ("kadmin", &self.kadmin)] {
            if let Some(got) = place.as_ref().filter(|place| !is_host(place)) {
                return Err(SiteError::Host { field, got: got.clone() });
            }
        }
        self.images.check()?;
        self.urls.check()?;
        match (self.authority.as_str(), self.is_insecure()) {
            ("", true) => Ok(()),
            ("", false) => {
                Err(SiteError::Authority("is missing: edges hold the certificates of https URLs against it"))
            }
            (text, _) if text.contains("PRIVATE KEY") || !text.starts_with("-----BEGIN CERTIFICATE-----\n") => {
                Err(SiteError::Authority("must be certificates as PEM, and nothing else"))
            }
            _ => Ok(()),
        }
    }

    /// Whether edges reach the directory without TLS.
    pub fn is_insecure(&self) -> bool {
        self.urls.directory.starts_with("http:")
    }
}

impl Urls {
    fn check(&self) -> Result<(), SiteError> {
        let Self { directory, config_db, auth, git, cluster_manager, mqtt } = self;
        let all = [
            ("directory", directory, HTTP),
            ("config_db", config_db, HTTP),
            ("auth", auth, HTTP),
            ("git", git, HTTP),
            ("cluster_manager", cluster_manager, HTTP),
            ("mqtt", mqtt, MQTT),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for (field, url, schemes) in all {
            let host = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)).unwrap_or_default();
            if !is_host(host) {
                let schemes = if schemes == HTTP { "https:// or http://" } else { "mqtts:// or mqtt://" };
                return Err(SiteError::Url { field, schemes, got: url.clone() });
            }
            if !seen.insert(url) {
                return Err(SiteError::Twice(url.clone()));
            }
        }
        Ok(())
    }
}

/// `HOST` or `HOST:PORT`; an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let name = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let good = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.len() <= LONGEST && name(host),
    };
    good && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number.to_string() == port && number > 0))
}

fn word(field: &'static str, got: &str, wanted: &'static str, fits: impl Fn(u8) -> bool) -> Result<(), SiteError> {
    let first = got.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let good = first && got.len() <= LONGEST && got.bytes().all(fits) && !got.contains("..") && !got.ends_with('.');
    if good { Ok(()) } else { Err(SiteError::Word { field, wanted, got: got.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let url = |name: &str| format!("https://{name}.example.org");
        Site {
            realm: "EXAMPLE.ORG".into(),
            domain: "example.org".into(),
            kdc: None,
            kadmin: Some("kadmin.example.org:749".into()),
            authority: "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n".into(),
            images: EdgeImages::default(),
            prefix: "ACME".into(),
            administrator: "admin".into(),
            urls: Urls {
                directory: url("directory"),
                config_db: url("configdb"),
                auth: url("auth"),
                git: "http://127.0.0.1:8080".into(),
                cluster_manager: "https://[::1]:8443".into(),
                mqtt: "mqtts://mqtt.example.org:8883".into(),
            },
        }
    }

    #[test]
    fn a_site_is_checked_word_by_word() {
        site().check().unwrap();
        for realm in ["", "example.org", "A B", "A/B", "A@B", "1A", "A..B", "A."] {
            assert!(matches!(
                Site { realm: realm.into(), ..site() }.check(),
                Err(SiteError::Word { field: "realm", .. })
            ));
        }
        for prefix in ["", "A+", "A/B", "A#", "{{x}}", "A-B"] {
            assert!(Site { prefix: prefix.into(), ..site() }.check().is_err(), "{prefix}");
        }
    }

    #[test]
    fn what_edges_are_told_is_checked() {
        for kdc in ["", "a b", "kdc.example.org:0", "$(x)", "http://kdc"] {
            let site = Site { kdc: Some(kdc.into()), ..site() };
            assert!(matches!(site.check(), Err(SiteError::Host { field: "kdc", .. })), "{kdc}");
        }
        for authority in ["", "x", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n"] {
            let site = Site { authority: authority.into(), ..site() };
            assert!(matches!(site.check(), Err(SiteError::Authority(_))), "{authority}");
        }
        let images = EdgeImages { prefix: "$(x)/".into(), ..EdgeImages::default() };
        assert!(matches!(Site { images, ..site() }.check(), Err(SiteError::Images(_))));
    }

    #[test]
    fn a_url_is_an_origin_and_no_two_are_one() {
        for url in [
            "",
            "git.example.org",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "https://a:0",
            "https://a:08",
            "https://a:70000",
            "https://[::1",
            "https://a b",
            "mqtt://a",
        ] {
            let urls = Urls { git: url.into(), ..site().urls };
            assert!(matches!(Site { urls, ..site() }.check(), Err(SiteError::Url { field: "git", .. })), "{url}");
        }
        let urls = Urls { git: site().urls.auth, ..site().urls };
        assert!(matches!(Site { urls, ..site() }.check(), Err(SiteError::Twice(_))));
    }
}
