//! Names of Kerberos principals.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes; kadmind allows more, paths and logs should not have to.
const LONGEST: usize = 255;
/// The most components before the realm.
const MOST_COMPONENTS: usize = 8;

/// The name of a Kerberos principal with its realm (RFC 1964, section 2.1.1): `COMPONENT[/COMPONENT…]@REALM`.
///
/// Of the characters that Kerberos allows, this takes letters, digits, `.`, `_` and `-`: nothing that needs an escape, so one
/// principal has one spelling. Case counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upn(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpnError {
    /// Longer than any name.
    #[error("a Kerberos principal has at most {LONGEST} bytes; this one has {0}")]
    TooLong(usize),
    /// Nothing stands behind an `@`, or there is none.
    #[error("a Kerberos principal ends in its realm: NAME@REALM")]
    NoRealm,
    /// A component or the realm is empty.
    #[error("a part of the Kerberos principal is empty; one is written as NAME@REALM or NAME/INSTANCE@REALM")]
    Empty,
    /// More components than any principal of a site has.
    #[error("a Kerberos principal has at most {MOST_COMPONENTS} parts between slashes")]
    TooManyComponents,
    /// Something that Kerberos would want escaped, or that is no ASCII.
    #[error("a Kerberos principal has letters, digits, '.', '_' and '-'; {0:?} is none of them")]
    Character(char),
    /// Nobody of that realm can log in here.
    #[error("the realm {0} is not this site's; principals of other realms need a trust in the configuration")]
    Realm(String),
}

impl Upn {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the `@`.
    pub fn name(&self) -> &str {
        self.parts().0
    }

    /// What stands behind the `@`.
    pub fn realm(&self) -> &str {
        self.parts().1
    }

    /// The parts between slashes, before the realm.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.name().split('/')
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('@').unwrap_or((&self.0, ""))
    }
}

fn check_part(part: &str) -> Result<(), UpnError> {
    if part.is_empty() {
        return Err(UpnError::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    part.chars().find(|c| !allowed(*c)).map_or(Ok(()), |other| Err(UpnError::Character(other)))
}

impl FromStr for Upn {
    type Err = UpnError;

    fn from_str(text: &str) -> Result<Self, UpnError> {
        if text.len() > LONGEST {
            return Err(UpnError::TooLong(text.len()));
        }
        let (name, realm) = text.split_once('@').ok_or(UpnError::NoRealm)?;
        if name.split('/').count() > MOST_COMPONENTS {
            return Err(UpnError::TooManyComponents);
        }
        name.split('/').try_for_each(check_part)?;
        check_part(realm)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Upn {
    type Error = UpnError;

    fn try_from(text: String) -> Result<Self, UpnError> {
        text.parse()
    }
}

impl From<Upn> for String {
    fn from(upn: Upn) -> Self {
        upn.0
    }
}

impl fmt::Display for Upn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Upn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The realms whose principals can be known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realms {
    ours: String,
    trusted: BTreeSet<String>,
}

impl Realms {
    /// This site's realm, and those that its KDC trusts.
    ///
    /// # Errors
    /// When one of them is no realm.
    pub fn new(ours: &str, trusted: impl IntoIterator<Item = String>) -> Result<Self, UpnError> {
        check_part(ours)?;
        let trusted: BTreeSet<String> = trusted.into_iter().collect();
        trusted.iter().try_for_each(|realm| check_part(realm))?;
        Ok(Self { ours: ours.into(), trusted })
    }

    /// Whether a principal is of this site itself.
    pub fn is_ours(&self, upn: &Upn) -> bool {
        upn.realm() == self.ours
    }

    /// Checks that somebody of this name can log in here.
    ///
    /// # Errors
    /// [`UpnError::Realm`].
    pub fn check(&self, upn: &Upn) -> Result<(), UpnError> {
        if self.is_ours(upn) || self.trusted.contains(upn.realm()) {
            Ok(())
        } else {
            Err(UpnError::Realm(upn.realm().into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_has_one_spelling() {
        for good in ["alice@R", "op1flux/Building_1@EXAMPLE.ORG", "nd1/A/b-c@r.x", "HTTP/auth.example.org@R"] {
            assert_eq!(good.parse::<Upn>().unwrap().as_str(), good);
        }
        let refused = |text: &str| text.parse::<Upn>().unwrap_err();
        assert_eq!(refused("alice"), UpnError::NoRealm);
        assert_eq!(refused(""), UpnError::NoRealm);
        for text in ["@R", "a@", "/a@R", "a/@R", "a//b@R"] {
            assert_eq!(refused(text), UpnError::Empty, "{text}");
        }
        for (text, character) in [("a\\/b@R", '\\'), ("a@b@R", '@'), ("a b@R", ' '), ("é@R", 'é'), ("a@R\n", '\n')] {
            assert_eq!(refused(text), UpnError::Character(character), "{text}");
        }
        assert_eq!(refused(&format!("{}@R", "a".repeat(254))), UpnError::TooLong(256));
        assert_eq!(refused("1/2/3/4/5/6/7/8/9@R"), UpnError::TooManyComponents);
    }

    #[test]
    fn realms_are_ours_or_trusted_by_the_configuration() {
        let realms = Realms::new("OURS", ["THEIRS".into()]).unwrap();
        let check = |text: &str| realms.check(&text.parse().unwrap());
        assert_eq!((check("a@OURS"), check("a@THEIRS")), (Ok(()), Ok(())));
        assert_eq!(check("a@ours"), Err(UpnError::Realm("ours".into())));
        assert!(!realms.is_ours(&"a@THEIRS".parse().unwrap()));
        assert!(Realms::new("a/b", []).is_err());
    }
}
