//! Names of Kerberos principals, and of realms.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ClusterName, NODE_ACCOUNT, Role};

/// The most components before the realm: `nd1/Cluster/Agent` has three.
const MOST_COMPONENTS: usize = 8;
/// The longest realm, in bytes.
const LONGEST_REALM: usize = 128;

/// The name of a Kerberos principal with its realm, `COMPONENT[/COMPONENT…]@REALM` (RFC 1964, section 2.1.1).
///
/// A *principal* is who somebody is: an entry of the KDC, or an object of the configuration database, known by its UUID. Its
/// *UPN*, user principal name, is what Kerberos calls it, and what both are found by.
///
/// Components and realm are made of ASCII letters, digits, `.`, `_` and `-`. So none needs an escape (MIT writes `\/` and `\@`),
/// none is a wildcard of `kadm5.acl`, one principal has one spelling, and a UPN stands in log lines, paths and YAML as it is. Case
/// counts, as in Kerberos. A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upn(Arc<str>);

/// The name of a Kerberos realm: 1 to 128 bytes of the same characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Realm(Arc<str>);

/// Why a text is no UPN, or no realm. The text is not repeated, since people type passwords into wrong fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpnError {
    /// Nothing, or too much.
    #[error("a Kerberos principal's name has 1 to {} bytes, and its realm at most {LONGEST_REALM}", Upn::LONGEST)]
    Length,
    /// No realm, or more than one.
    #[error("a Kerberos principal is written NAME@REALM or NAME/INSTANCE@REALM, with one @")]
    Realm,
    /// Too many slashes.
    #[error("a Kerberos principal has at most {MOST_COMPONENTS} parts between slashes")]
    Components,
    /// Nothing before, between or behind `/` and `@`.
    #[error("a part of the Kerberos principal is empty; one is written NAME@REALM or NAME/INSTANCE@REALM")]
    Empty,
    /// Something that Kerberos would want escaped, or that is not ASCII.
    #[error("the parts of a Kerberos principal and its realm have letters, digits, '.', '_' and '-'")]
    Character,
}

impl Upn {
    /// The longest one, in bytes; kadmind allows more, paths and logs should not have to.
    pub const LONGEST: usize = 255;

    /// Reads what a person types as a user: without `@` it is a name in `realm`.
    ///
    /// # Errors
    /// [`UpnError`].
    pub fn in_realm(user: &str, realm: &Realm) -> Result<Self, UpnError> {
        if user.is_empty() || user.len() > Self::LONGEST {
            return Err(UpnError::Length);
        }
        if user.contains('@') { user.parse() } else { format!("{user}@{realm}").parse() }
    }

    /// An account of a cluster. What goes in has no other characters and is short enough, so there is no error.
    pub(crate) fn of_account(role: Role, cluster: &ClusterName, realm: &Realm) -> Self {
        Self(format!("{}/{cluster}@{realm}", role.account()).into())
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the `@`: `op1flux/Cluster`.
    pub fn name(&self) -> &str {
        self.parts().0
    }

    /// What stands behind the `@`.
    pub fn realm(&self) -> &str {
        self.parts().1
    }

    /// The parts of the name, at least one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.name().split('/')
    }

    /// The cluster whose it is, where it is that of an edge's account (`ROLE/CLUSTER`) or node (`nd1/CLUSTER/NAME`).
    pub fn edge_cluster(&self) -> Option<&str> {
        let mut parts = self.components();
        match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
            (account, cluster, None, None) => Role::of_account(account).map(|_| cluster),
            (NODE_ACCOUNT, cluster, Some(_), None) => Some(cluster),
            _ => None,
        }
    }

    /// The realm, as one.
    pub fn to_realm(&self) -> Realm {
        Realm(self.realm().into())
    }

    /// Whether a text may stand between `/` and `@`.
    pub fn is_part(text: &str) -> bool {
        check_part(text).is_ok()
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('@').unwrap_or((&self.0, ""))
    }
}

impl Realm {
    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_part(part: &str) -> Result<(), UpnError> {
    if part.is_empty() {
        return Err(UpnError::Empty);
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if part.bytes().all(known) { Ok(()) } else { Err(UpnError::Character) }
}

fn check_realm(realm: &str) -> Result<(), UpnError> {
    if realm.len() > LONGEST_REALM {
        return Err(UpnError::Length);
    }
    check_part(realm)
}

impl FromStr for Upn {
    type Err = UpnError;

    fn from_str(text: &str) -> Result<Self, UpnError> {
        if text.is_empty() || text.len() > Self::LONGEST {
            return Err(UpnError::Length);
        }
        let (name, realm) = text.split_once('@').ok_or(UpnError::Realm)?;
        if realm.contains('@') {
            return Err(UpnError::Realm);
        }
        if name.split('/').count() > MOST_COMPONENTS {
            return Err(UpnError::Components);
        }
        name.split('/').try_for_each(check_part)?;
        check_realm(realm)?;
        Ok(Self(text.into()))
    }
}

impl FromStr for Realm {
    type Err = UpnError;

    fn from_str(text: &str) -> Result<Self, UpnError> {
        check_realm(text)?;
        Ok(Self(text.into()))
    }
}

/// What a text with a closed form needs beside `FromStr` to be read and written by serde, and shown.
macro_rules! text {
    ($type:ident) => {
        impl TryFrom<String> for $type {
            type Error = UpnError;

            fn try_from(text: String) -> Result<Self, UpnError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.as_str().to_owned()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text!(Upn);
text!(Realm);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_has_one_spelling() {
        for good in ["alice@R", "op1flux/Building_1@EXAMPLE.ORG", "nd1/A/b-c@r.x", "HTTP/auth.example.org@R"] {
            let upn: Upn = good.parse().unwrap();
            assert_eq!(upn.as_str(), good);
            assert_eq!(serde_json::to_string(&upn).unwrap(), format!("{good:?}"));
            assert_eq!(serde_json::from_str::<Upn>(&format!("{good:?}")).unwrap(), upn);
        }
        for (text, error) in [
            ("", UpnError::Length),
            ("alice", UpnError::Realm),
            ("a@b@R", UpnError::Realm),
            ("@R", UpnError::Empty),
            ("a@", UpnError::Empty),
            ("/a@R", UpnError::Empty),
            ("a/@R", UpnError::Empty),
            ("a//b@R", UpnError::Empty),
            ("*/admin@R", UpnError::Character),
            ("a\\/b@R", UpnError::Character),
            ("a b@R", UpnError::Character),
            ("a\0@R", UpnError::Character),
            ("sv1$@R", UpnError::Character),
            ("é@R", UpnError::Character),
            ("a@R\n", UpnError::Character),
            ("a@R/x", UpnError::Character),
            ("1/2/3/4/5/6/7/8/9@R", UpnError::Components),
        ] {
            assert_eq!(text.parse::<Upn>(), Err(error), "{text:?}");
            assert!(serde_json::from_value::<Upn>(text.into()).is_err());
        }
        assert_eq!(format!("{}@R", "a".repeat(254)).parse::<Upn>(), Err(UpnError::Length));
        assert!(format!("{}@R", "a".repeat(253)).parse::<Upn>().is_ok());
    }

    #[test]
    fn a_name_has_its_parts() {
        let upn: Upn = "nd1/Test_1/Agent-2@EXAMPLE.ORG".parse().unwrap();
        assert_eq!((upn.name(), upn.realm()), ("nd1/Test_1/Agent-2", "EXAMPLE.ORG"));
        assert_eq!(upn.components().collect::<Vec<_>>(), ["nd1", "Test_1", "Agent-2"]);
        assert_eq!(upn.to_realm().as_str(), "EXAMPLE.ORG");
    }

    #[test]
    fn an_edges_upn_says_whose_it_is() {
        let of = |name: &str| format!("{name}@R").parse::<Upn>().unwrap().edge_cluster().map(str::to_owned);
        for edge in ["op1flux/A", "op1krbkeys/A", "op1sync/A", "op1monitor/A", "nd1/A/agent"] {
            assert_eq!(of(edge).as_deref(), Some("A"), "{edge}");
        }
        for other in ["op1flux", "op1flux/A/b", "nd1/A", "nd1/A/b/c", "HTTP/A", "admin", "alice/admin"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_user_without_realm_is_of_ours() {
        let realm: Realm = "R".parse().unwrap();
        assert_eq!(Upn::in_realm("alice", &realm).unwrap().as_str(), "alice@R");
        assert_eq!(Upn::in_realm("alice@OTHER", &realm).unwrap().realm(), "OTHER");
        assert_eq!(Upn::in_realm(&"a".repeat(1 << 20), &realm), Err(UpnError::Length));
        for bad in ["", "a/b", "a@b", "a b"] {
            assert!(bad.parse::<Realm>().is_err(), "{bad:?}");
        }
        assert_eq!("R".repeat(129).parse::<Realm>(), Err(UpnError::Length));
    }
}
