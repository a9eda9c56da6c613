//! `registration.json`: what clusters become, and which machines register one without being invited.
//!
//! ```json
//! {
//!   "version": 1,
//!   "chart": "729fe070-…", "namespace": "fplus-edge", "bare": false,
//!   "rules": [{
//!     "name": "line", "eks": ["<64 hex digits>"], "manifest": "edge", "image": "edge-node", "minimum_version": "1.2.0",
//!     "cluster_names": "Line_{n}", "per_day": 10
//!   }]
//! }
//! ```
//!
//! A rule without `eks` speaks of every TPM that the policy trusts, one without `image` of every image of the manifest.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use latchkey_attestation::reference::ManifestName;
use latchkey_attestation::validate::AdmittedImage;
use latchkey_attestation::{EkDigest, ImageVersion};
use latchkey_factory_plus::{ClusterName, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Rules of one file; more than anybody reads.
const MAX_RULES: usize = 256;
/// Characters of a rule's name.
const MAX_NAME: usize = 64;
/// The most clusters a day by one rule.
const MAX_PER_DAY: u32 = 10_000;
/// Where the number goes in a pattern.
const NUMBER: &str = "{n}";
/// The highest number a name is given.
const MAX_NUMBER: u32 = 99_999;

/// What clusters become, and who registers one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Schema: 1.
    pub version: u64,
    /// The Helm chart template of clusters, where nothing else is said.
    pub chart: Uuid,
    /// Their namespace, where nothing else is said.
    pub namespace: String,
    /// Whether Flux's own manifests stay out of their repositories.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// Rules for machines that come without an invitation; the first that fits counts.
    #[serde(default)]
    pub rules: Vec<RegistrationRule>,
}

/// Which machines register a cluster by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrationRule {
    /// What records and logs call it.
    pub name: String,
    /// The TPMs; absent: all that the policy trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eks: Option<BTreeSet<EkDigest>>,
    /// The manifest that has the machine's image.
    pub manifest: ManifestName,
    /// The image; absent: each of that manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The least version of it.
    pub minimum_version: ImageVersion,
    /// What the clusters are called.
    pub cluster_names: NamePattern,
    /// How many clusters it may make within 24 hours.
    pub per_day: u32,
}

/// A cluster's name with `{n}` for a number: the least that no other cluster has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern {
    before: String,
    after: String,
}

/// What a cluster is to be, as far as somebody said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its name.
    pub name: ClusterName,
    /// Its namespace, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its Helm chart template, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Uuid>,
}

impl Rules {
    /// Rules by which nobody registers uninvited.
    pub fn of(chart: Uuid, namespace: &str) -> Self {
        Self { version: VERSION, chart, namespace: namespace.to_owned(), bare: false, rules: Vec::new() }
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let rules: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        rules.check()?;
        Ok(rules)
    }

    /// Whether the fields fit each other.
    ///
    /// # Errors
    /// [`ContentError::Rule`].
    pub fn check(&self) -> Result<(), ContentError> {
        check_namespace(&self.namespace)?;
        if self.rules.len() > MAX_RULES {
            return Err(ContentError::Rule(format!("`rules` has {}; {MAX_RULES} are the most", self.rules.len())));
        }
        let mut names = BTreeSet::new();
        for rule in &self.rules {
            rule.check()?;
            if !names.insert(&rule.name) {
                return Err(ContentError::Rule(format!("two rules are called {:?}: give each a name", rule.name)));
            }
        }
        Ok(())
    }
}

impl RegistrationRule {
    /// Whether it speaks of this machine with this image.
    pub fn fits(&self, ek: &EkDigest, image: &AdmittedImage) -> bool {
        self.eks.as_ref().is_none_or(|eks| eks.contains(ek))
            && self.manifest == image.manifest
            && self.image.as_ref().is_none_or(|name| *name == image.name)
            && image.version >= self.minimum_version
    }

    fn check(&self) -> Result<(), ContentError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=MAX_NAME).contains(&self.name.len()) || !self.name.chars().all(plain) {
            let what = "letters, digits, dots, hyphens and underscores make a rule's name, at most 64";
            return Err(ContentError::Rule(format!("{:?}: {what}", self.name)));
        }
        if !(1..=MAX_PER_DAY).contains(&self.per_day) {
            return Err(ContentError::Rule(format!("rule {}: `per_day` is 1 to {MAX_PER_DAY}", self.name)));
        }
        if self.eks.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(ContentError::Rule(format!(
                "rule {}: `eks` is empty: name TPMs, or leave it out for all that the policy trusts",
                self.name
            )));
        }
        Ok(())
    }
}

impl NamePattern {
    /// The name with the least number that is not taken; `None` where there is none within 31 characters.
    pub fn first_free(&self, taken: impl Fn(&ClusterName) -> bool) -> Option<ClusterName> {
        (1..=MAX_NUMBER).map_while(|number| self.with(number).ok()).find(|name| !taken(name))
    }

    fn with(&self, number: u32) -> Result<ClusterName, latchkey_factory_plus::NameError> {
        format!("{}{number}{}", self.before, self.after).parse()
    }
}

impl TryFrom<String> for NamePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let how = "a pattern is a cluster's name with {n} once, such as Line_{n}";
        let (before, after) = text.split_once(NUMBER).ok_or_else(|| format!("{text:?}: {how}"))?;
        let pattern = Self { before: before.to_owned(), after: after.to_owned() };
        pattern.with(1).map_err(|error| format!("{text:?}: {error}; {how}"))?;
        Ok(pattern)
    }
}

impl From<NamePattern> for String {
    fn from(pattern: NamePattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{NUMBER}{}", self.before, self.after)
    }
}

impl Wanted {
    /// A cluster of this name, as usual otherwise.
    pub const fn called(name: ClusterName) -> Self {
        Self { name, namespace: None, chart: None }
    }

    pub(super) fn check(&self) -> Result<(), ContentError> {
        self.namespace.as_deref().map_or(Ok(()), check_namespace)
    }
}

/// RFC 1123 label, as Kubernetes wants namespaces.
fn check_namespace(name: &str) -> Result<(), ContentError> {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let good =
        (1..=63).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-');
    if good {
        Ok(())
    } else {
        Err(ContentError::Rule(format!("{name:?} is no namespace: lower-case letters, digits and hyphens make one")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{
        "version": 1, "chart": "729fe070-5e67-4bc7-94b5-afd75cb42b03", "namespace": "fplus-edge",
        "rules": [{"name": "line", "manifest": "edge", "minimum_version": "1.2.0", "cluster_names": "Line_{n}", "per_day": 10}]
    }"#;

    #[test]
    fn what_would_let_in_more_than_was_meant_is_refused() {
        let rules = Rules::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(rules.rules[0].cluster_names.to_string(), "Line_{n}");
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("\"version\": 1", "\"version\": 1, \"rule\": []"),
            ("\"per_day\": 10", "\"per_day\": 0"),
            ("\"per_day\": 10", "\"per_day\": 10001"),
            (", \"per_day\": 10", ""),
            ("\"minimum_version\": \"1.2.0\", ", ""),
            ("\"manifest\": \"edge\", ", ""),
            ("\"manifest\"", "\"eks\": [], \"manifest\""),
            ("Line_{n}", "Line"),
            ("Line_{n}", "{n}Line"),
            ("Line_{n}", "Line_{n}_{n}"),
            ("Line_{n}", "Line $(reboot) {n}"),
            ("fplus-edge", "Fplus"),
            ("\"name\": \"line\"", "\"name\": \"\""),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            assert!(Rules::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_gives_the_first_name_that_is_free() {
        let pattern = NamePattern::try_from("Line_{n}".to_owned()).unwrap();
        assert_eq!(pattern.first_free(|_| false).unwrap().as_str(), "Line_1");
        let taken = ["Line_1", "Line_2"];
        assert_eq!(pattern.first_free(|name| taken.contains(&name.as_str())).unwrap().as_str(), "Line_3");
        let long = NamePattern::try_from(format!("{}{{n}}", "a".repeat(30))).unwrap();
        assert_eq!(long.first_free(|name| !name.as_str().ends_with("10")), None, "32 characters are no name");
    }
}
