//! Who is calling: names in verified certificates, matched against the configured rules.

use crate::config::CallerRule;
use serde::Deserialize;
use std::fmt;

/// A subject alternative name that identifies a caller. The kinds never equal each other, so a URI cannot pose as a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum CallerName {
    /// `dNSName`, in lower case, without wildcards.
    Dns(String),
    /// `uniformResourceIdentifier`, compared byte by byte.
    Uri(String),
}

impl TryFrom<String> for CallerName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let printable = !text.is_empty() && text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let dns = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
        match text.split_once("://") {
            Some((scheme, rest)) if printable && !scheme.is_empty() && !rest.is_empty() => Ok(Self::Uri(text)),
            None if printable && dns => Ok(Self::Dns(text)),
            _ => Err(format!("`{}` is neither a DNS name in lower case nor a URI", text.escape_debug())),
        }
    }
}

impl fmt::Display for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Uri(name) => f.write_str(name),
        }
    }
}

/// The outcome of looking up a certificate's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Exactly one rule matches; its index.
    Known(usize),
    /// No rule matches.
    Stranger,
    /// Several rules match. Taking one of them would make the rules' order a policy nobody wrote.
    Ambiguous,
}

impl Caller {
    /// Looks up the names of one certificate. The certificate must have been verified: what is said here is believed.
    pub(crate) fn identify(rules: &[CallerRule], names: &[CallerName]) -> Self {
        let mut matching = rules.iter().enumerate().filter(|(_, rule)| names.contains(&rule.name));
        match (matching.next(), matching.next()) {
            (Some((index, _)), None) => Self::Known(index),
            (None, _) => Self::Stranger,
            (Some(_), Some(_)) => Self::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(names: &[&str]) -> Vec<CallerRule> {
        let rule = |name: &&str| format!(r#"{{"name": "{name}", "key_classes": []}}"#);
        names.iter().map(|name| serde_json::from_str(&rule(name)).unwrap()).collect()
    }

    fn dns(name: &str) -> CallerName {
        CallerName::Dns(name.to_owned())
    }

    #[test]
    fn a_certificate_is_known_by_any_one_of_its_names() {
        let rules = rules(&["a.example", "spiffe://cluster/join"]);
        let names = [dns("other.example"), CallerName::Uri("spiffe://cluster/join".into())];
        assert_eq!(Caller::identify(&rules, &names), Caller::Known(1));
    }

    #[test]
    fn no_rules_or_no_names_know_nobody() {
        assert_eq!(Caller::identify(&[], &[dns("a.example")]), Caller::Stranger);
        assert_eq!(Caller::identify(&rules(&["a.example"]), &[]), Caller::Stranger);
    }

    #[test]
    fn a_certificate_that_matches_two_rules_is_nobody() {
        let rules = rules(&["a.example", "b.example"]);
        assert_eq!(Caller::identify(&rules, &[dns("a.example"), dns("b.example")]), Caller::Ambiguous);
    }

    #[test]
    fn a_uri_spelled_like_a_host_is_not_that_host() {
        let rules = rules(&["a.example"]);
        assert_eq!(Caller::identify(&rules, &[CallerName::Uri("a.example".into())]), Caller::Stranger);
        assert_eq!(Caller::identify(&rules, &[dns("a.example.evil")]), Caller::Stranger);
    }
}
