//! Who somebody is: a Kerberos principal, as a user principal name.

use std::fmt;
use std::sync::Arc;

/// The longest principal, bytes.
pub const MAX_PRINCIPAL: usize = 256;

/// The most parts of a name: `service/host/more@REALM`.
const MAX_PARTS: usize = 3;

/// A user principal name: `name@REALM`, or `name/instance@REALM`. At most [`MAX_PRINCIPAL`] bytes of a closed set, so that it
/// stands in log lines, paths and URLs as it is. Upper and lower case differ, as in Kerberos.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

/// The name of a Kerberos realm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Realm(Arc<str>);

/// Why a text is no principal or realm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// It is empty or too long.
    #[error("a principal has 1 to {MAX_PRINCIPAL} bytes")]
    Length,
    /// There is not exactly one `@`, or a part is empty, or there are too many.
    #[error("a principal is NAME@REALM or NAME/INSTANCE@REALM; no part is empty")]
    Shape,
    /// A character outside of the closed set.
    #[error("a principal is made of A-Z, a-z, 0-9 and . _ - + $; its realm of A-Z, a-z, 0-9 and . _ -")]
    Character,
}

impl Principal {
    /// Reads `name@REALM`.
    ///
    /// # Errors
    /// [`PrincipalError`].
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        if text.is_empty() || text.len() > MAX_PRINCIPAL {
            return Err(PrincipalError::Length);
        }
        let (name, realm) = text.split_once('@').ok_or(PrincipalError::Shape)?;
        check_realm(realm)?;
        if name.split('/').count() > MAX_PARTS || name.split('/').any(str::is_empty) {
            return Err(PrincipalError::Shape);
        }
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+$/".contains(&byte);
        if !name.bytes().all(known) {
            return Err(PrincipalError::Character);
        }
        Ok(Self(text.into()))
    }

    /// Reads what a person types as a user: with no `@` it is one of `realm`.
    ///
    /// # Errors
    /// [`PrincipalError`].
    pub fn of_user(user: &str, realm: &Realm) -> Result<Self, PrincipalError> {
        if user.contains('@') {
            return Self::parse(user);
        }
        if user.is_empty() || user.len() > MAX_PRINCIPAL {
            return Err(PrincipalError::Length);
        }
        Self::parse(&format!("{user}@{realm}"))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the `@`.
    pub fn name(&self) -> &str {
        self.0.split_once('@').map_or("", |(name, _)| name)
    }

    /// What stands behind the `@`.
    pub fn realm(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, realm)| realm)
    }
}

impl Realm {
    /// Reads the name of a realm.
    ///
    /// # Errors
    /// [`PrincipalError`].
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        if text.len() > MAX_PRINCIPAL {
            return Err(PrincipalError::Length);
        }
        check_realm(text)?;
        Ok(Self(text.into()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_realm(realm: &str) -> Result<(), PrincipalError> {
    if realm.is_empty() || realm.contains('@') {
        return Err(PrincipalError::Shape);
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if realm.bytes().all(known) { Ok(()) } else { Err(PrincipalError::Character) }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_contract_are_principals() {
        for text in ["admin@FACTORY.EXAMPLE", "op1flux/Building_1@FACTORY.EXAMPLE", "HTTP/git.example.org@R", "sv1$@R"]
        {
            assert_eq!(Principal::parse(text).map(|principal| principal.to_string()).as_deref(), Ok(text));
        }
        let realm = Realm::parse("FACTORY.EXAMPLE").unwrap();
        assert_eq!(Principal::of_user("admin", &realm).unwrap().as_str(), "admin@FACTORY.EXAMPLE");
        let foreign = Principal::of_user("admin@OTHER", &realm).unwrap();
        assert_eq!((foreign.name(), foreign.realm()), ("admin", "OTHER"));
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("{}@R", "a".repeat(MAX_PRINCIPAL));
        for text in ["", "a", "@R", "a@", "a@b@c", "a b@R", "a\n@R", "a/@R", "/a@R", "a/b/c/d@R", "a@R/x", "ü@R", &long]
        {
            assert!(Principal::parse(text).is_err(), "{text:?}");
        }
    }
}
