//! Access lists that are kept and changed are those that would be made anew, and those that a plain reading of the rules makes.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_auth::Realms;
use latchkey_auth::model::{Change, Model};
use latchkey_auth::rights::Rules;
use latchkey_auth::state::{State, Touched};
use latchkey_factory_plus::grants::{Access, Grant};
use latchkey_factory_plus::uuids::{class, special};
use latchkey_factory_plus::{Upn, Uuid};
use proptest::prelude::*;

use super::site::number;

/// Few enough that everything meets everything.
fn object() -> impl Strategy<Value = Uuid> {
    prop_oneof![
        20 => (0..8_u8).prop_map(number),
        1 => Just(class::PRINCIPAL),
        1 => Just(class::PERMISSION),
        1 => Just(special::SELF),
        1 => Just(special::MINE),
        1 => Just(special::WILDCARD),
        1 => Just(special::UNOWNED),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Grant(Uuid, Grant),
    Revoke(Uuid),
    Name(Uuid, u8),
    Members(Uuid, BTreeSet<Uuid>),
    Owner(Uuid, Option<Uuid>),
    Look(Uuid),
}

fn step() -> impl Strategy<Value = Step> {
    let grant = (object(), object(), object(), any::<bool>())
        .prop_map(|(principal, permission, target, plural)| Grant { principal, permission, target, plural });
    let classes = prop_oneof![Just(class::PRINCIPAL), Just(class::PERMISSION), object()];
    prop_oneof![
        3 => ((50..60_u8).prop_map(number), grant).prop_map(|(uuid, grant)| Step::Grant(uuid, grant)),
        1 => (50..60_u8).prop_map(|uuid| Step::Revoke(number(uuid))),
        1 => (object(), 0..4_u8).prop_map(|(principal, name)| Step::Name(principal, name)),
        3 => (classes, prop::collection::btree_set(object(), 0..6)).prop_map(|(class, of)| Step::Members(class, of)),
        1 => (object(), prop::option::of(object())).prop_map(|(object, owner)| Step::Owner(object, owner)),
        2 => object().prop_map(Step::Look),
    ]
}

/// The rules, read plainly.
#[derive(Default)]
struct Plain {
    grants: BTreeMap<Uuid, Grant>,
    members: BTreeMap<Uuid, BTreeSet<Uuid>>,
    owners: BTreeMap<Uuid, Uuid>,
}

impl Plain {
    fn has(&self, class: Uuid, object: Uuid) -> bool {
        self.members.get(&class).is_some_and(|members| members.contains(&object))
    }

    fn all(&self, class: Uuid) -> Vec<Uuid> {
        self.members.get(&class).into_iter().flatten().copied().collect()
    }

    fn list(&self, principal: Uuid) -> Option<BTreeSet<Access>> {
        if !self.has(class::PRINCIPAL, principal) {
            return None;
        }
        let mut list = BTreeSet::new();
        for grant in self.grants.values() {
            if grant.principal != principal && !self.has(grant.principal, principal) {
                continue;
            }
            let single = self.has(class::PERMISSION, grant.permission);
            let permissions = if single { vec![grant.permission] } else { self.all(grant.permission) };
            let targets = if grant.target == special::MINE {
                let owned = self.owners.iter().filter(|(_, owner)| **owner == principal).map(|(object, _)| *object);
                std::iter::once(special::MINE).chain(owned).collect()
            } else if grant.plural {
                self.all(grant.target)
            } else {
                vec![grant.target]
            };
            let own =
                |target| if target == special::SELF && grant.target != special::MINE { principal } else { target };
            list.extend(permissions.iter().flat_map(|permission| {
                targets.iter().map(move |target| Access { permission: *permission, target: own(*target) })
            }));
        }
        Some(list)
    }
}

fn name(number: u8) -> Upn {
    format!("name{number}@R").parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lists_are_those_of_the_rules_after_any_changes(steps in prop::collection::vec(step(), 1..60)) {
        let rules = Rules { realms: Realms::new("R".parse().unwrap(), BTreeSet::new()), root: None, fixed: BTreeMap::new() };
        let mut state = State::new(rules, Model::default());
        let mut plain = Plain::default();
        let mut watched: BTreeMap<Uuid, Option<BTreeSet<Access>>> = BTreeMap::new();
        for step in steps {
            let touched = match step {
                Step::Grant(uuid, grant) => {
                    plain.grants.retain(|other, held| *other != uuid && *held != grant);
                    plain.grants.insert(uuid, grant);
                    state.apply(&Change::Grant { uuid, grant })
                }
                Step::Revoke(uuid) => {
                    plain.grants.remove(&uuid);
                    state.apply(&Change::Revoke { uuid })
                }
                Step::Name(principal, called) => {
                    let touched = state.apply(&Change::Name { principal, name: name(called) });
                    prop_assert!(touched.names.contains(&name(called)));
                    prop_assert_eq!(state.model().identities().principal_of(&name(called)), Some(principal));
                    touched
                }
                Step::Members(class, members) => {
                    plain.members.insert(class, members.clone());
                    state.set_members(class, members)
                }
                Step::Owner(object, owner) => {
                    plain.owners.remove(&object);
                    plain.owners.extend(owner.filter(|owner| *owner != special::UNOWNED).map(|owner| (object, owner)));
                    state.set_owner(object, owner)
                }
                Step::Look(principal) => {
                    watched.insert(principal, plain.list(principal));
                    Touched::default()
                }
            };
            // A list that was looked at and is not said to be touched is the same as before.
            for (principal, before) in &watched {
                if !touched.lists.contains(principal) {
                    prop_assert_eq!(before, &plain.list(*principal), "{} changed and nobody said so", principal);
                }
            }
            for (principal, last) in &mut watched {
                *last = plain.list(*principal);
                let made: Option<BTreeSet<Access>> = state.list(*principal).ok().map(|list| list.iter().copied().collect());
                prop_assert_eq!(&made, last, "{}", principal);
            }
        }
    }

    #[test]
    fn a_name_is_one_principals_and_a_principal_has_one_name(steps in prop::collection::vec((0..6_u8, prop::option::of(0..4_u8)), 1..40)) {
        let mut model = Model::default();
        let mut plain: BTreeMap<Uuid, Upn> = BTreeMap::new();
        for (principal, called) in steps {
            let principal = number(principal);
            plain.remove(&principal);
            match called {
                Some(called) => {
                    plain.retain(|_, held| *held != name(called));
                    plain.insert(principal, name(called));
                    model.apply(&Change::Name { principal, name: name(called) });
                }
                None => model.apply(&Change::Unname { principal }),
            }
            let all: BTreeMap<Uuid, Upn> = model.identities().all().map(|(uuid, name)| (uuid, name.clone())).collect();
            prop_assert_eq!(&all, &plain);
            for (principal, name) in &plain {
                prop_assert_eq!(model.identities().principal_of(name), Some(*principal));
            }
        }
    }
}

/// The principal of this number, of many.
fn principal(number: u16) -> Uuid {
    let mut bytes = [9; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    Uuid::from_bytes(bytes)
}

#[test]
fn of_thousands_of_principals_a_change_touches_those_whose_lists_it_may_change() {
    use latchkey_factory_plus::uuids::{permission, role};
    const MANY: u16 = 5000;
    let rules =
        Rules { realms: Realms::new("R".parse().unwrap(), BTreeSet::new()), root: None, fixed: BTreeMap::new() };
    let mut state = State::new(rules, Model::default());
    let all: BTreeSet<Uuid> = (0..MANY).map(principal).collect();
    state.set_members(class::PERMISSION, BTreeSet::from([permission::GIT_PULL]));
    state.set_members(class::PRINCIPAL, all.clone());
    state.set_members(role::GIT_SERVER, all.iter().copied().skip(1).collect());
    let grant = |principal, target| Grant { principal, permission: permission::GIT_PULL, target, plural: false };
    state.apply(&Change::Grant { uuid: number(50), grant: grant(role::GIT_SERVER, special::SELF) });
    for n in 0..MANY {
        let uuid = Uuid::from_bytes(u128::from(n).to_be_bytes());
        state.apply(&Change::Grant { uuid, grant: grant(principal(n), number(7)) });
    }
    let look = |state: &mut State| all.iter().map(|principal| state.list(*principal).unwrap().len()).sum::<usize>();
    assert_eq!(look(&mut state), 2 * usize::from(MANY) - 1);
    let one = BTreeSet::from([principal(0)]);
    assert_eq!(state.set_members(role::GIT_SERVER, all.clone()).lists, one, "who joined the role");
    assert_eq!(
        state.set_owner(number(8), Some(principal(0))).lists,
        BTreeSet::new(),
        "the list was not looked at since"
    );
    assert_eq!(look(&mut state), 2 * usize::from(MANY));
    assert_eq!(state.set_owner(number(8), None).lists, one);
    assert_eq!(
        state.apply(&Change::Revoke { uuid: Uuid::from_bytes(3_u128.to_be_bytes()) }).lists,
        BTreeSet::from([principal(3)])
    );
    assert_eq!(
        state.apply(&Change::Revoke { uuid: number(50) }).lists.len(),
        usize::from(MANY) - 2,
        "the role's own grant"
    );
}
