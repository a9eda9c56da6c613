//! Where the broker is.

use std::fmt;
use std::str::FromStr;

use latchkey_factory_plus_client::BaseUrl;
use serde::Deserialize;

/// `mqtts://HOST[:PORT]`, or `mqtt://HOST[:PORT]` without TLS.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BrokerUrl {
    secure: bool,
    /// The origin at which HTTP would be: the same host and port.
    origin: BaseUrl,
}

/// Why a text is no broker's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{shown:?} is no broker's URL: one is mqtts://HOST or mqtts://HOST:PORT, without user, path, query and fragment"
)]
pub struct BrokerUrlError {
    shown: String,
}

impl BrokerUrl {
    /// Whether it is spoken to with TLS.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        self.origin.host()
    }

    /// The port; 8883 with TLS and 1883 without, where none is given (IANA).
    pub const fn port(&self) -> u16 {
        self.origin.port()
    }
}

impl FromStr for BrokerUrl {
    type Err = BrokerUrlError;

    fn from_str(text: &str) -> Result<Self, BrokerUrlError> {
        read(text).ok_or_else(|| BrokerUrlError { shown: text.chars().take(60).collect() })
    }
}

fn read(text: &str) -> Option<BrokerUrl> {
    let (secure, port, rest) = match text.strip_prefix("mqtts://") {
        Some(rest) => (true, 8883, rest),
        None => (false, 1883, text.strip_prefix("mqtt://")?),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // Behind the address in brackets, whose colons are none of a port.
    let has_port = rest.rsplit(']').next()?.contains(':');
    let origin = if has_port { format!("https://{rest}") } else { format!("https://{rest}:{port}") };
    Some(BrokerUrl { secure, origin: origin.parse().ok()? })
}

impl TryFrom<String> for BrokerUrl {
    type Error = BrokerUrlError;

    fn try_from(text: String) -> Result<Self, BrokerUrlError> {
        text.parse()
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host();
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "mqtt{}://{open}{host}{close}:{}", if self.secure { "s" } else { "" }, self.port())
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        for (text, shown) in [
            ("mqtts://mqtt.example", "mqtts://mqtt.example:8883"),
            ("mqtt://mqtt.example/", "mqtt://mqtt.example:1883"),
            ("mqtts://[::1]", "mqtts://[::1]:8883"),
            ("mqtts://[::1]:1", "mqtts://[::1]:1"),
            ("mqtts://Host:443", "mqtts://host:443"),
        ] {
            assert_eq!(text.parse::<BrokerUrl>().unwrap().to_string(), shown);
        }
        for bad in
            ["", "mqtts://", "https://h", "mqtts://u@h", "mqtts://h/x", "mqtts://h:", "mqtts://h:0", "mqtts://h\n"]
        {
            assert!(bad.parse::<BrokerUrl>().is_err(), "{bad:?}");
        }
    }
}
