//! Dumps: what many principals are called and granted, written at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Upn, Uuid, uuids};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::api::Answer;
use crate::model::{Change, Model};
use crate::rights::{MayLoad, NotLoaded, Rules};

/// The version of dumps that is read.
const VERSION: u32 = 2;

/// A dump for this service. Of the principals that it lists it says everything: other grants of theirs end.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    service: Uuid,
    version: u32,
    #[serde(default, deserialize_with = "each_once")]
    identities: BTreeMap<Uuid, Names>,
    #[serde(default, deserialize_with = "each_once")]
    grants: BTreeMap<Uuid, Permissions>,
}

/// What a principal is called.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    kerberos: Upn,
}

/// What a principal is granted, by permission.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
struct Permissions(#[serde(deserialize_with = "each_once")] BTreeMap<Uuid, Option<Targets>>);

/// What a permission is granted for; `null` in the place of this is everything.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
struct Targets(#[serde(deserialize_with = "each_once")] BTreeMap<Uuid, Plural>);

/// Whether a target, its members, or both are meant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plural {
    No,
    Yes,
    Both,
}

impl<'de> Deserialize<'de> for Plural {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Plural;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true (the members of the target), false (the target itself) or \"both\"")
            }

            fn visit_bool<E: Error>(self, plural: bool) -> Result<Plural, E> {
                Ok(if plural { Plural::Yes } else { Plural::No })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Plural, E> {
                if word == "both" {
                    Ok(Plural::Both)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(word), &self))
                }
            }
        }
        deserializer.deserialize_any(Word)
    }
}

/// Why a dump is not loaded; nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// For another service.
    #[error("`service` is {0}; this is the authorisation service, {auth}", auth = uuids::service::AUTH)]
    Service(Uuid),
    /// Of another version.
    #[error("`version` is {0}; this service reads version {VERSION}")]
    Version(u32),
    /// Two principals with one name.
    #[error("`identities` calls two principals {0}")]
    Twice(Upn),
    /// A name that nobody can have here.
    #[error("`identities.{principal}.kerberos`: {why}")]
    Name {
        /// Whose.
        principal: Uuid,
        /// Why.
        why: NotLoaded,
    },
    /// A name of a principal that the dump does not list.
    #[error("`identities.{principal}.kerberos`: {name} is another principal's name, whom the dump does not list")]
    Taken {
        /// Whose it would be.
        principal: Uuid,
        /// The name.
        name: Upn,
    },
}

impl DumpError {
    pub(crate) fn answer(&self) -> Answer {
        let status = match self {
            Self::Taken { .. } => 409,
            Self::Name { why: NotLoaded::Root, .. } => 403,
            _ => 422,
        };
        Answer::refused(status, self)
    }
}

impl Dump {
    /// What has to change so that everything is as the dump says.
    ///
    /// # Errors
    /// [`DumpError`].
    pub fn changes(
        &self,
        rules: &Rules,
        model: &Model,
        may: &MayLoad,
        fresh: &mut dyn FnMut() -> Uuid,
    ) -> Result<Vec<Change>, DumpError> {
        if self.service != uuids::service::AUTH {
            return Err(DumpError::Service(self.service));
        }
        if self.version != VERSION {
            return Err(DumpError::Version(self.version));
        }
        let mut changes = self.names(rules, model, may)?;
        for (principal, permissions) in &self.grants {
            let wanted = permissions.grants(*principal);
            let held: BTreeSet<Grant> = model.grants().held_by(*principal).map(|(_, grant)| *grant).collect();
            let ended = held.difference(&wanted).filter_map(|grant| model.grants().find(grant));
            changes.extend(ended.map(|uuid| Change::Revoke { uuid }));
            changes.extend(wanted.difference(&held).map(|grant| Change::Grant { uuid: fresh(), grant: *grant }));
        }
        Ok(changes)
    }

    /// Old names go first, so that principals may change names among themselves.
    fn names(&self, rules: &Rules, model: &Model, may: &MayLoad) -> Result<Vec<Change>, DumpError> {
        let mut given = BTreeSet::new();
        let (mut taken, mut named) = (Vec::new(), Vec::new());
        for (principal, Names { kerberos: name }) in &self.identities {
            let principal = *principal;
            if !given.insert(name) {
                return Err(DumpError::Twice(name.clone()));
            }
            let held = model.identities().name_of(principal);
            if held == Some(name) {
                continue;
            }
            may.check(rules, name).map_err(|why| DumpError::Name { principal, why })?;
            let other = model.identities().principal_of(name);
            if other.is_some_and(|other| !self.identities.contains_key(&other)) {
                return Err(DumpError::Taken { principal, name: name.clone() });
            }
            taken.extend(held.map(|_| Change::Unname { principal }));
            named.push(Change::Name { principal, name: name.clone() });
        }
        Ok(taken.into_iter().chain(named).collect())
    }
}

impl Permissions {
    fn grants(&self, principal: Uuid) -> BTreeSet<Grant> {
        let mut grants = BTreeSet::new();
        for (permission, targets) in &self.0 {
            let mut add = |target, plural| grants.insert(Grant { principal, permission: *permission, target, plural });
            let Some(Targets(targets)) = targets else {
                add(uuids::special::WILDCARD, false);
                continue;
            };
            for (target, plural) in targets {
                if *plural != Plural::Yes {
                    add(*target, false);
                }
                if *plural != Plural::No {
                    add(*target, true);
                }
            }
        }
        grants
    }
}

/// Reads an object, refusing a key that is there twice: which of the two would count, the next reader might see otherwise.
fn each_once<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<BTreeMap<Uuid, T>, D::Error> {
    struct EachOnce<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for EachOnce<T> {
        type Value = BTreeMap<Uuid, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object by UUID")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some(key) = map.next_key::<Uuid>()? {
                if values.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("{key} is there twice")));
                }
                values.insert(key, map.next_value()?);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(EachOnce(PhantomData))
}
