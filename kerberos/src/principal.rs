//! Names of principals.

use std::fmt;
use thiserror::Error;

/// No name that people or programs give is longer.
const MAX_LENGTH: usize = 255;
/// Components before the realm: `nd1/Cluster/Agent` has three.
const MAX_COMPONENTS: usize = 8;

/// The full name of a principal, `name[/component…]@REALM`.
///
/// Components and realm are made of ASCII letters, digits and `-`, `_`, `.`, so that none needs an escape (MIT writes `\/` and
/// `\@`), none is a wildcard of `kadm5.acl`, and each text names one principal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Upn {
    text: Box<str>,
    /// Where the `@` stands.
    at: usize,
}

/// Why a text is no name of a principal.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UpnError {
    /// Nothing, or more than 255 bytes.
    #[error("a principal has between 1 and {MAX_LENGTH} bytes")]
    Length,
    /// No realm, or more than one.
    #[error("a principal is written name@REALM, with one @")]
    Realm,
    /// Too many slashes.
    #[error("a principal has at most {MAX_COMPONENTS} components, with / between them")]
    Components,
    /// An empty part, or one with other characters.
    #[error("each part of a principal has letters, digits, '-', '_' and '.', and at least one of them")]
    Characters,
}

impl Upn {
    /// Reads `name[/component…]@REALM`.
    ///
    /// # Errors
    /// Says which rule the text breaks; it is not repeated, since users type passwords into wrong fields.
    pub fn parse(text: &str) -> Result<Self, UpnError> {
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(UpnError::Length);
        }
        let (name, realm) = text.split_once('@').ok_or(UpnError::Realm)?;
        if realm.contains('@') {
            return Err(UpnError::Realm);
        }
        if name.split('/').count() > MAX_COMPONENTS {
            return Err(UpnError::Components);
        }
        if !name.split('/').chain([realm]).all(is_part) {
            return Err(UpnError::Characters);
        }
        Ok(Self { text: text.into(), at: name.len() })
    }

    /// What a user typed: a text without `@` is a name in `realm`.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn in_realm(user: &str, realm: &str) -> Result<Self, UpnError> {
        if user.len() > MAX_LENGTH || realm.len() > MAX_LENGTH {
            return Err(UpnError::Length);
        }
        if user.contains('@') { Self::parse(user) } else { Self::parse(&format!("{user}@{realm}")) }
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands before the realm: `op1flux/Cluster`.
    pub fn name(&self) -> &str {
        &self.text[..self.at]
    }

    /// The realm, without the `@`.
    pub fn realm(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The parts of the name, at least one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.name().split('/')
    }
}

impl fmt::Display for Upn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Upn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upn({})", self.text)
    }
}

impl std::str::FromStr for Upn {
    type Err = UpnError;

    fn from_str(text: &str) -> Result<Self, UpnError> {
        Self::parse(text)
    }
}

/// Whether it may be a component or a realm.
pub(crate) fn is_part(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_parts() {
        let upn = Upn::parse("nd1/Test_1/Agent-2@EXAMPLE.ORG").unwrap();
        assert_eq!(upn.name(), "nd1/Test_1/Agent-2");
        assert_eq!(upn.realm(), "EXAMPLE.ORG");
        assert_eq!(upn.components().collect::<Vec<_>>(), ["nd1", "Test_1", "Agent-2"]);
        assert_eq!(Upn::in_realm("alice", "R").unwrap().as_str(), "alice@R");
        assert_eq!(Upn::in_realm("alice@OTHER", "R").unwrap().realm(), "OTHER");
    }

    #[test]
    fn what_needs_escapes_or_is_a_wildcard_is_no_name() {
        for (text, error) in [
            ("", UpnError::Length),
            ("alice", UpnError::Realm),
            ("alice@R@S", UpnError::Realm),
            ("@R", UpnError::Characters),
            ("alice@", UpnError::Characters),
            ("alice/@R", UpnError::Characters),
            ("*/admin@R", UpnError::Characters),
            ("al\\/ice@R", UpnError::Characters),
            ("al\0ice@R", UpnError::Characters),
            ("älice@R", UpnError::Characters),
            ("a/b/c/d/e/f/g/h/i@R", UpnError::Components),
        ] {
            assert_eq!(Upn::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Upn::parse(&format!("{}@R", "a".repeat(MAX_LENGTH))), Err(UpnError::Length));
        assert_eq!(Upn::in_realm(&"a".repeat(1 << 20), "R"), Err(UpnError::Length));
    }
}
