//! Versions of images: three numbers, so that "at least" has one meaning.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `MAJOR.MINOR.PATCH`, ordered by number. No suffixes: a pre-release is an image like any other and gets a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl ImageVersion {
    /// A version of three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for ImageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for ImageVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut parts = text.split('.').map(number);
        let mut next = || parts.next().flatten().ok_or(VersionError);
        let version = Self { major: next()?, minor: next()?, patch: next()? };
        parts.next().is_none().then_some(version).ok_or(VersionError)
    }
}

/// A decimal number without sign, space or leading zero.
fn number(text: &str) -> Option<u32> {
    let canonical = text == "0" || (text.starts_with(|c: char| matches!(c, '1'..='9')) && text.len() <= 10);
    canonical.then(|| text.parse().ok()).flatten()
}

impl Serialize for ImageVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Text that is not `MAJOR.MINOR.PATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version of the form MAJOR.MINOR.PATCH")]
pub struct VersionError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_and_not_by_text() {
        let version = |text: &str| text.parse::<ImageVersion>().unwrap();
        assert!(version("1.10.0") > version("1.9.9"));
        assert!(version("2.0.0") > version("1.99.99"));
        assert_eq!(version("1.2.3").to_string(), "1.2.3");
    }

    #[test]
    fn a_version_in_a_second_spelling_is_refused() {
        for text in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-rc1", "+1.2.3", "1.2.4294967296", " 1.2.3", "1..3"] {
            assert_eq!(text.parse::<ImageVersion>(), Err(VersionError), "{text:?}");
        }
    }
}
