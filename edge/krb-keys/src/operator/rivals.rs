//! Resources that want the same: the one that was first has it.

use std::collections::BTreeMap;

use latchkey_factory_plus::Upn;

use super::resource::{Place, Resource, Wanted};
use super::watch::Type;

/// A resource's kind and name.
pub(crate) type Id = (Type, String);

/// Who wants what, of all resources.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    principals: BTreeMap<Upn, Vec<Claim>>,
    places: BTreeMap<Place, Vec<Claim>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    created: String,
    id: Id,
}

impl Rivals {
    /// Of all resources that stay.
    pub(crate) fn of<'a>(resources: impl Iterator<Item = (&'a Id, &'a Resource)>) -> Self {
        let mut rivals = Self::default();
        for (id, resource) in resources.filter(|(_, resource)| !resource.deleting) {
            let Ok(wanted) = &resource.wanted else { continue };
            let claim = || Claim { created: resource.created.clone(), id: id.clone() };
            for upn in &wanted.principals {
                rivals.principals.entry(upn.clone()).or_default().push(claim());
            }
            if let Some(place) = &wanted.place {
                rivals.places.entry(place.clone()).or_default().push(claim());
            }
        }
        rivals.principals.values_mut().chain(rivals.places.values_mut()).for_each(|claims| claims.sort());
        rivals
    }

    /// Who was first with something that this one wants, if that is another.
    pub(crate) fn first(&self, id: &Id, wanted: &Wanted) -> Option<String> {
        let principals = wanted.principals.iter().filter_map(|upn| self.principals.get(upn));
        let claims = principals.chain(wanted.place.as_ref().and_then(|place| self.places.get(place)));
        let mut firsts = claims.filter_map(|claims| claims.first());
        firsts.find(|claim| claim.id != *id).map(|claim| format!("{} {}", claim.id.0.title(), claim.id.1))
    }

    /// Whether a resource other than this one has each principal, and the place.
    pub(crate) fn others(&self, id: &Id, wanted: &Wanted) -> (Vec<bool>, bool) {
        let other =
            |claims: Option<&Vec<Claim>>| claims.is_some_and(|claims| claims.iter().any(|claim| claim.id != *id));
        let principals = wanted.principals.iter().map(|upn| other(self.principals.get(upn))).collect();
        (principals, wanted.place.as_ref().is_some_and(|place| other(self.places.get(place))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::resource::Kind;

    fn resource(created: &str, name: &str, secret: &str) -> Resource {
        let place = Some(Place { secret: secret.into(), key: "k".into() });
        let principals = vec![Upn::in_realm(name, &"R".parse().unwrap()).unwrap()];
        Resource {
            uid: String::new(),
            generation: 1,
            created: created.into(),
            deleting: false,
            finalizers: vec![],
            annotations: BTreeMap::new(),
            has_old_keys: false,
            status: None,
            wanted: Ok(Wanted { kind: Kind::Password, principals, place, account: None }),
        }
    }

    #[test]
    fn whoever_was_first_has_it_and_who_goes_counts_no_more() {
        let id = |name: &str| (Type::KerberosKey, name.to_owned());
        let mut all = BTreeMap::from([
            (id("b"), resource("1", "op1sync/N", "s")),
            (id("a"), resource("2", "op1sync/N", "t")),
            (id("c"), resource("3", "op1flux/N", "s")),
        ]);
        let first = |all: &BTreeMap<Id, Resource>, name: &str| {
            Rivals::of(all.iter()).first(&id(name), all[&id(name)].wanted.as_ref().unwrap())
        };
        let other = Some("KerberosKey b".to_owned());
        assert_eq!((first(&all, "b"), first(&all, "a"), first(&all, "c")), (None, other.clone(), other));
        let wanted = all[&id("b")].wanted.clone().unwrap();
        assert_eq!(Rivals::of(all.iter()).others(&id("b"), &wanted), (vec![true], true));
        all.get_mut(&id("b")).unwrap().deleting = true;
        assert_eq!((first(&all, "a"), first(&all, "c")), (None, None));
    }
}
