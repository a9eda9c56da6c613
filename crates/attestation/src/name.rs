//! Names of manifests, images and machines.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Name of a manifest: 1 to 64 of `a-z 0-9 . _ -`, beginning with a letter or digit. Safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ManifestName(String);

impl ManifestName {
    /// The name, or `None` when it is none.
    pub fn new(name: &str) -> Option<Self> {
        is_name(name).then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ManifestName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| D::Error::custom(format_args!("no name of a manifest: {NAME_RULE}")))
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let character = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&text.len())
        && text.bytes().all(character)
        && text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
}

pub(crate) const NAME_RULE: &str = "1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit";
