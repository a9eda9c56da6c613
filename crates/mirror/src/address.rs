//! Addresses of mirrors and of files.

use serde::Deserialize;

/// Longest address.
const MAX_ADDRESS: usize = 500;
/// So much of a wrong one is said.
const SHOWN: usize = 40;

/// An address of a file, HTTP or HTTPS, without a user, a password, a query or a fragment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Address(String);

impl Address {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}@".contains(&byte);
        if !host.is_empty() && text.len() <= MAX_ADDRESS && text.bytes().all(plain) {
            Ok(Self(text))
        } else {
            let shown: String = text.chars().take(SHOWN).collect();
            Err(format!(
                "{shown:?} is no address like https://HOST/PATH, without user, password, query and fragment, of at most {MAX_ADDRESS} characters"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_http_and_carry_no_secret() {
        let address = |text: &str| Address::try_from(text.to_owned()).is_ok();
        assert!(address("https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet") && address("http://[::1]:80/a"));
        for text in [
            "file:///etc/shadow",
            "https://",
            "https:///x",
            "ftp://h/x",
            "h/x",
            "https://u:p@h/x",
            "https://h/x?y",
            "https://h/\r\n",
        ] {
            assert!(!address(text), "{text:?}");
        }
    }
}
