//! Where a node is, or what runs on it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The agent's `latchkey.listen_port` unless its command line says otherwise.
const DEFAULT_PORT: u16 = 9000;

/// `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A name, or an address without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Of something that listens on this port unless the text says another.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address: write HOST, HOST:PORT or [IPV6]:PORT");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None if text.matches(':').count() > 1 => return Err(wrong()),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
        if host.is_empty() || host.len() > 253 || !host.chars().all(plain) {
            return Err(wrong());
        }
        let port = port.map_or(Some(default_port), |port| port.parse().ok().filter(|port| *port != 0));
        Ok(Self { host: host.to_owned(), port: port.ok_or_else(wrong)? })
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, DEFAULT_PORT)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_ports_are_told_apart() {
        for (text, shown) in [
            ("node-1", "node-1:9000"),
            ("10.0.0.5:9001", "10.0.0.5:9001"),
            ("[fe80::1]", "[fe80::1]:9000"),
            ("[::1]:9001", "[::1]:9001"),
            ("edge.example:1", "edge.example:1"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in
            ["", ":9000", "a:", "a:0", "a:65536", "a:b", "::1", "[::1", "[::1]9000", "[a]:1", "a b", "a/b", "[::1]:"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
