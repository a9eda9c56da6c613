//! Where a service is: an origin (RFC 6454), since every service has one of its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The URL of a service's root, `http(s)://HOST[:PORT]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BaseUrl {
    secure: bool,
    /// As it stands in the URL: an IPv6 address in brackets.
    host: String,
    port: u16,
}

/// Why a text is no URL of a service's root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{shown:?} is no service's URL: one is https://HOST or https://HOST:PORT, without user, path, query and fragment"
)]
pub struct BaseUrlError {
    shown: String,
}

/// Longest URL, characters: a host name has at most 253.
const LONGEST: usize = 300;

impl BaseUrl {
    /// Whether it is `https`.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `HOST[:PORT]`, as the header Host has it.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        read(text).ok_or_else(|| BaseUrlError { shown: text.chars().take(60).collect() })
    }
}

fn read(text: &str) -> Option<BaseUrl> {
    let (secure, rest) = match text.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix("http://")?),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let end = if rest.starts_with('[') { rest.find(']')? + 1 } else { rest.find(':').unwrap_or(rest.len()) };
    let (host, port) = rest.split_at(end);
    let known = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(plain),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port > 0)?
        }
        None if port.is_empty() => {
            if secure {
                443
            } else {
                80
            }
        }
        _ => return None,
    };
    (known && text.len() <= LONGEST).then(|| BaseUrl { secure, host: host.to_ascii_lowercase(), port })
}

impl TryFrom<String> for BaseUrl {
    type Error = BaseUrlError;

    fn try_from(text: String) -> Result<Self, BaseUrlError> {
        text.parse()
    }
}

impl From<BaseUrl> for String {
    fn from(url: BaseUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}", if self.secure { "s" } else { "" }, self.authority())
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_an_origin() {
        let read = |text: &str| text.parse::<BaseUrl>().unwrap();
        assert_eq!(read("https://Auth.example/").to_string(), "https://auth.example");
        assert_eq!(read("http://auth.example:80"), read("http://auth.example"));
        let six = read("https://[::1]:8443");
        assert_eq!((six.host(), six.port(), six.to_string().as_str()), ("::1", 8443, "https://[::1]:8443"));
        for bad in [
            "",
            "https://",
            "ftp://h",
            "h",
            "https://u@h",
            "https://h/x",
            "https://h?x",
            "https://h#x",
            "https://h:",
            "https://h:0",
            "https://h:65536",
            "https://h:+1",
            "https://[::1",
            "https://[h]",
            "https://[::1]x",
            "http://a b",
            "http://h\r\n",
            "http://[::1]:80]",
            "https://é",
        ] {
            assert!(bad.parse::<BaseUrl>().is_err(), "{bad:?}");
        }
        assert!(format!("https://{}", "a".repeat(400)).parse::<BaseUrl>().is_err());
    }
}
