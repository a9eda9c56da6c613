//! Where a service is, and what that is called from outside.
//!
//! A centre behind a proxy has two names for each service: `auth.internal.example` and `auth.example.org`, and often TLS outside
//! alone. One advertisement serves both: a proxy says which name its client used, and the same label is put before that
//! name's domain.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest URL.
const LONGEST: usize = 1024;

/// A protocol, with and without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Mqtt,
    WebSocket,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Http, Self::Mqtt, Self::WebSocket];

    const fn scheme(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Self::Http, false) => "http",
            (Self::Http, true) => "https",
            (Self::Mqtt, false) => "mqtt",
            (Self::Mqtt, true) => "mqtts",
            (Self::WebSocket, false) => "ws",
            (Self::WebSocket, true) => "wss",
        }
    }

    const fn port(self, tls: bool) -> u16 {
        match (self, tls) {
            (Self::Http | Self::WebSocket, false) => 80,
            (Self::Http | Self::WebSocket, true) => 443,
            (Self::Mqtt, false) => 1883,
            (Self::Mqtt, true) => 8883,
        }
    }
}

/// The URL of a service: `SCHEME://HOST[:PORT][/PATH]`, of a scheme that clients know. No user, query or fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    protocol: Protocol,
    tls: bool,
    host: String,
    port: Option<u16>,
    path: String,
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Longer than any.
    #[error("a service's URL has at most {LONGEST} bytes")]
    TooLong,
    /// Another scheme, or none.
    #[error("a service's URL begins with http://, https://, mqtt://, mqtts://, ws:// or wss://")]
    Scheme,
    /// What should be a host is none.
    #[error("{0:?} is no host; write a DNS name in lower case, an IPv4 address or an IPv6 address in brackets")]
    Host(String),
    /// What should be a port is none.
    #[error("{0:?} is no port; a port is a number from 1 to 65535")]
    Port(String),
    /// Something else stands in it.
    #[error("{0:?} has no place in a service's URL: it is SCHEME://HOST[:PORT][/PATH]")]
    Character(char),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() > LONGEST {
            return Err(AddressError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (protocol, tls) = protocol(scheme).ok_or(AddressError::Scheme)?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let bad = |c: &char| !(c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%/".contains(*c));
        if let Some(bad) = path.chars().find(bad) {
            return Err(AddressError::Character(bad));
        }
        let (host, port) = host_and_port(authority)?;
        Ok(Self { protocol, tls, host: host.into(), port, path: path.into() })
    }
}

fn protocol(scheme: &str) -> Option<(Protocol, bool)> {
    let all = Protocol::ALL.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)]);
    all.into_iter().find(|(protocol, tls)| protocol.scheme(*tls) == scheme)
}

fn host_and_port(authority: &str) -> Result<(&str, Option<u16>), AddressError> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
            let host = &authority[..address.len() + 2];
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(|| no_port(rest))?) })
        }
        Some(_) => return Err(AddressError::Host(authority.into())),
        None => {
            let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
            if !is_host(host) {
                return Err(AddressError::Host(host.into()));
            }
            (host, port)
        }
    };
    let port = port.map(|port| digits(port).ok_or_else(|| no_port(port))).transpose()?;
    Ok((host, port))
}

fn no_port(text: &str) -> AddressError {
    AddressError::Port(text.into())
}

fn digits(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port| digits && *port != 0)
}

/// Whether a text is a DNS name in lower case (RFC 1123, section 2.1) or an IPv4 address.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let numeric = text.split('.').next_back().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    text.len() <= 253 && text.split('.').all(is_label) && (!numeric || text.parse::<Ipv4Addr>().is_ok())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.scheme(self.tls), self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

/// A DNS domain that services have names in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Domain(String);

impl TryFrom<String> for Domain {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        if is_host(&text) && text.parse::<Ipv4Addr>().is_err() { Ok(Self(text)) } else { Err(AddressError::Host(text)) }
    }
}

/// How a client got here, as a proxy that is trusted says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    domain: String,
    tls: bool,
}

/// Why what a proxy says is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// Several hosts, or something that is none.
    #[error("X-Forwarded-Host is no host of this site, such as directory.example.org; the proxy has to set it to one")]
    Host,
    /// No protocol that is known.
    #[error("X-Forwarded-Proto is http or https; the proxy has to set it to one of them")]
    Protocol,
}

impl Outside {
    /// Reads what a proxy says: `X-Forwarded-Host`, and `X-Forwarded-Proto` (no TLS, where it is not there).
    ///
    /// # Errors
    /// [`OutsideError`].
    pub fn read(host: &str, protocol: Option<&str>) -> Result<Self, OutsideError> {
        let lower = host.trim().to_ascii_lowercase();
        let (name, _) = host_and_port(&lower).map_err(|_| OutsideError::Host)?;
        let (_, domain) =
            name.split_once('.').filter(|_| name.parse::<Ipv4Addr>().is_err()).ok_or(OutsideError::Host)?;
        let tls = match protocol {
            None => false,
            Some(scheme) => self::protocol(&scheme.trim().to_ascii_lowercase()).ok_or(OutsideError::Protocol)?.1,
        };
        Ok(Self { domain: domain.into(), tls })
    }
}

impl Address {
    /// What this address is called from outside. Only a name directly within the site's `inside` domain has another name there.
    #[must_use]
    pub fn seen_from(&self, outside: &Outside, inside: &Domain) -> Self {
        let Some((label, domain)) = self.host.split_once('.') else { return self.clone() };
        if domain != inside.0 {
            return self.clone();
        }
        // A port that only says what the scheme says already would say something else with the other scheme.
        let port = self.port.filter(|port| *port != self.protocol.port(self.tls));
        Self { host: format!("{label}.{}", outside.domain), tls: outside.tls, port, ..self.clone() }
    }
}
