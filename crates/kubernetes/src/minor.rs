//! Versions: what a user says, and what the table makes of it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::code::KubernetesCode;

/// How much of a wrong text is shown.
const SHOWN: usize = 40;
/// Digits of a number in a version.
const MAX_DIGITS: usize = 3;

/// A minor version of Kubernetes, `1.34`: what a user says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Minor(u16);

/// One exact version, `1.34.4`: what the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Patch {
    minor: Minor,
    patch: u16,
}

/// Why a version is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MinorRefusal {
    /// It names a patch.
    #[error("{said:?} names a patch, and which one it is says the version table: say {minor}")]
    HasPatch {
        /// What was said.
        said: String,
        /// What to say.
        minor: Minor,
    },
    /// It begins with a `v`.
    #[error("{said:?} begins with a letter: say {minor}")]
    HasPrefix {
        /// What was said.
        said: String,
        /// What to say.
        minor: Minor,
    },
    /// It is no version.
    #[error("{0:?} is no minor version of Kubernetes, such as 1.34")]
    Malformed(String),
    /// The table does not have it.
    #[error("Kubernetes {minor} is not in the version table, which has {known}", known = list(.known))]
    Unknown {
        /// What was said.
        minor: Minor,
        /// What there is.
        known: Vec<Minor>,
    },
    /// It is older than all in the table.
    #[error("Kubernetes {minor} is too old: the version table has {known}", known = list(.known))]
    TooOld {
        /// What was said.
        minor: Minor,
        /// What there is.
        known: Vec<Minor>,
    },
}

impl MinorRefusal {
    /// The stable reason code.
    pub const fn code(&self) -> KubernetesCode {
        match self {
            Self::HasPatch { .. } | Self::HasPrefix { .. } | Self::Malformed(_) => KubernetesCode::VersionMalformed,
            Self::Unknown { .. } => KubernetesCode::VersionUnknown,
            Self::TooOld { .. } => KubernetesCode::VersionTooOld,
        }
    }
}

fn list(known: &[Minor]) -> String {
    let names: Vec<String> = known.iter().map(Minor::to_string).collect();
    names.join(", ")
}

/// A number without a sign or zeroes before it.
fn number(text: &str) -> Option<u16> {
    let plain = text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    let short = text == "0" || !text.starts_with('0');
    if plain && short { text.parse().ok() } else { None }
}

/// `MAJOR.MINOR` and, if there is one, `PATCH`. There is one major version.
fn numbers(text: &str) -> Option<(Minor, Option<u16>)> {
    let (minor, patch) = match text.strip_prefix("1.")?.split_once('.') {
        Some((minor, patch)) => (minor, Some(number(patch)?)),
        None => (text.strip_prefix("1.")?, None),
    };
    Some((Minor(number(minor)?), patch))
}

impl FromStr for Minor {
    type Err = MinorRefusal;

    fn from_str(text: &str) -> Result<Self, MinorRefusal> {
        let said = || text.chars().take(SHOWN).collect::<String>();
        match (numbers(text), text.strip_prefix('v').and_then(numbers)) {
            (Some((minor, None)), _) => Ok(minor),
            (Some((minor, Some(_))), _) => Err(MinorRefusal::HasPatch { said: said(), minor }),
            (None, Some((minor, _))) => Err(MinorRefusal::HasPrefix { said: said(), minor }),
            (None, None) => Err(MinorRefusal::Malformed(said())),
        }
    }
}

impl TryFrom<String> for Minor {
    type Error = MinorRefusal;

    fn try_from(text: String) -> Result<Self, MinorRefusal> {
        text.parse()
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl Patch {
    /// The minor version that it is of.
    pub const fn minor(self) -> Minor {
        self.minor
    }
}

impl TryFrom<String> for Patch {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some((minor, Some(patch))) = numbers(&text) {
            return Ok(Self { minor, patch });
        }
        let said: String = text.chars().take(SHOWN).collect();
        Err(format!("{said:?} is no exact version of Kubernetes, such as 1.34.4"))
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_version_is_two_numbers_and_nothing_else() {
        for text in ["1.34", "1.0", "1.999"] {
            assert_eq!(text.parse::<Minor>().unwrap().to_string(), text);
        }
        let long = "9".repeat(10_000);
        for text in
            ["", "1", "1.", "1.034", "1.1000", "2.0", "1.+4", "1.34 ", " 1.34", "1.34-rc.1", "latest", "1,34", &long]
        {
            let refusal = text.parse::<Minor>().unwrap_err();
            assert!(matches!(&refusal, MinorRefusal::Malformed(said) if said.len() <= SHOWN), "{refusal}");
        }
    }

    #[test]
    fn a_patch_and_a_prefix_are_refused_with_what_to_say() {
        let refusal = |text: &str| text.parse::<Minor>().unwrap_err();
        assert_eq!(
            refusal("1.34.4").to_string(),
            "\"1.34.4\" names a patch, and which one it is says the version table: say 1.34"
        );
        assert_eq!(refusal("v1.34").to_string(), "\"v1.34\" begins with a letter: say 1.34");
        assert_eq!(refusal("v1.34.4").to_string(), "\"v1.34.4\" begins with a letter: say 1.34");
        assert_eq!(refusal("v1.34").code(), KubernetesCode::VersionMalformed);
    }

    #[test]
    fn an_exact_version_is_three_numbers() {
        let patch = |text: &str| Patch::try_from(text.to_owned());
        assert_eq!(patch("1.34.10").unwrap().to_string(), "1.34.10");
        assert!(patch("1.34.4").unwrap() < patch("1.34.10").unwrap());
        for text in ["1.34", "v1.34.4", "1.34.4.1", "1.34.x", "1.34."] {
            assert!(patch(text).is_err(), "{text}");
        }
    }
}
