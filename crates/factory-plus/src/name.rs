//! What an edge cluster may be called.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of an edge cluster: `^[A-Za-z][A-Za-z0-9_]{0,30}$`.
///
/// It becomes a part of principals (`op1flux/NAME`), of a Sparkplug group, of a path in the git server and of YAML, so it has
/// no character that means something to any of them, begins with a letter (YAML reads `123` as a number), and is none of the
/// words that YAML reads as something else. Two names that differ in case alone are one name: see [`ClusterName::folded`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

/// The most characters of a name.
const LONGEST: usize = 31;

/// What YAML 1.1 reads as a boolean or null (yaml.org/type/bool.html, yaml.org/type/null.html), and names of the KDC's own
/// administration: kadmind's rules and krb5 itself give them a meaning.
const RESERVED: [&str; 14] =
    ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "admin", "root", "krbtgt", "kadmin", "changepw"];

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was typed.
    #[error("a cluster needs a name")]
    Empty,
    /// More than [`LONGEST`] characters.
    #[error("a name has at most {LONGEST} characters; this one has {0}")]
    TooLong(usize),
    /// The first character is no letter.
    #[error("a name begins with a letter from A to Z, not with {0:?}")]
    First(char),
    /// Some other character is neither letter, digit nor underscore.
    #[error("a name has letters from A to Z, digits and underscores; {0:?} is none of them")]
    Character(char),
    /// A word that means something to YAML or to the KDC.
    #[error("{0:?} means something to YAML or to the KDC; choose another name")]
    Reserved(String),
}

impl ClusterName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in lower case: two clusters whose names are equal so are not told apart.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let first = text.chars().next().ok_or(NameError::Empty)?;
        if !first.is_ascii_alphabetic() {
            return Err(NameError::First(first));
        }
        if let Some(other) = text.chars().find(|other| !other.is_ascii_alphanumeric() && *other != '_') {
            return Err(NameError::Character(other));
        }
        if text.len() > LONGEST {
            return Err(NameError::TooLong(text.len()));
        }
        if RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            return Err(NameError::Reserved(text.into()));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for ClusterName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_nothing_to_shells_yaml_paths_or_the_kdc() {
        for good in ["A", "Building_1", "x", &"a".repeat(31), "Nord"] {
            assert_eq!(good.parse::<ClusterName>().unwrap().as_str(), good);
        }
        let refused = |name: &str| name.parse::<ClusterName>().unwrap_err();
        assert_eq!(refused(""), NameError::Empty);
        assert_eq!(refused("123"), NameError::First('1'));
        assert_eq!(refused("_a"), NameError::First('_'));
        assert_eq!(refused("é"), NameError::First('é'));
        for (name, character) in [("a b", ' '), ("a/b", '/'), ("a@R", '@'), ("a$(x)", '$'), ("a\n", '\n'), ("aé", 'é')]
        {
            assert_eq!(refused(name), NameError::Character(character));
        }
        assert_eq!(refused(&"a".repeat(32)), NameError::TooLong(32));
        for word in ["admin", "TRUE", "No", "krbtgt"] {
            assert_eq!(refused(word), NameError::Reserved(word.into()));
        }
    }
}
