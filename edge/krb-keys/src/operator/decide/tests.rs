use std::collections::BTreeMap;

use super::super::resource::{Place, Refused};
use super::*;

const NOW: u64 = 1_000_000;

fn upn(name: &str) -> Upn {
    Upn::in_realm(name, &"R".parse().unwrap()).unwrap()
}

fn resource(kind: Kind, names: &[&str]) -> Resource {
    let place = Some(Place { secret: "s".into(), key: "k".into() });
    let principals = names.iter().map(|name| upn(name)).collect();
    Resource {
        uid: "u".into(),
        generation: 1,
        created: String::new(),
        deleting: false,
        finalizers: vec![FINALIZER.into()],
        annotations: BTreeMap::new(),
        has_old_keys: false,
        status: None,
        wanted: Ok(Wanted { kind, principals, place, account: None }),
    }
}

fn annotated(kind: Kind, name: &str, value: &str) -> Resource {
    let annotations = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    Resource { annotations, ..resource(kind, &["a/N"]) }
}

#[expect(clippy::unnecessary_wraps, reason = "what the KDC shows of a principal, if there is one")]
fn shown(enabled: bool) -> Option<Shown> {
    Some(Shown { version: 1, enabled, expires: None, password_expires: None })
}

fn facts(held: Held, shown: &[Option<Shown>]) -> Facts {
    let (taken_by, place_wanted_by_others) = (None, false);
    Facts {
        held,
        shown: shown.to_vec(),
        taken_by,
        wanted_by_others: vec![false; shown.len()],
        place_wanted_by_others,
        own: false,
        now: NOW,
    }
}

const RANDOM: Kind = Kind::Random { keep_old: false };
const GOOD: Held = Held::Something { serves: Some(true) };
const BAD: Held = Held::Something { serves: Some(false) };
const UNKNOWN: Held = Held::Something { serves: None };

fn done(resource: &Resource, facts: &Facts) -> Vec<Effect> {
    match decide(resource, facts) {
        Decision::Do(effects) => effects,
        other => panic!("{other:?}"),
    }
}

fn refused(resource: &Resource, facts: &Facts) -> String {
    match decide(resource, facts) {
        Decision::Refuse(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_resource_is_held_before_anything_is_made_for_it() {
    let new = |kind| Resource { finalizers: vec![], ..resource(kind, &["a/N"]) };
    let first = |kind, held| done(&new(kind), &facts(held, &[None]))[0].clone();
    for kind in [RANDOM, Kind::Password, Kind::Disabled] {
        assert_eq!(first(kind, Held::Nothing), Effect::Hold);
    }
    assert_eq!(
        done(&new(Kind::Password), &facts(Held::Nothing, &[None])),
        [Effect::Hold, Effect::WritePassword, Effect::CreateWithPassword(upn("a/N"))],
        "the password is in the Secret before the KDC has it"
    );
}

#[test]
fn what_serves_is_left_as_it_is() {
    for kind in [RANDOM, Kind::Random { keep_old: true }, Kind::Password, Kind::PresetPassword] {
        assert_eq!(done(&resource(kind, &["a/N"]), &facts(GOOD, &[shown(true)])), [], "{kind:?}");
    }
    assert_eq!(done(&resource(Kind::Local, &[]), &facts(GOOD, &[])), []);
    assert_eq!(done(&resource(Kind::Disabled, &["a/N"]), &facts(Held::Nowhere, &[shown(false)])), []);
    assert_eq!(done(&resource(Kind::Disabled, &["a/N"]), &facts(Held::Nowhere, &[None])), []);
}

#[test]
fn keys_are_made_where_those_that_are_held_do_not_serve() {
    let rekey = Effect::Rekey { keep_old: false };
    let two = resource(RANDOM, &["a/N", "b/N"]);
    assert_eq!(
        done(&two, &facts(Held::Nothing, &[shown(true), None])),
        [Effect::CreateRandom(upn("b/N")), rekey.clone()]
    );
    assert_eq!(done(&two, &facts(BAD, &[shown(true), shown(true)])), std::slice::from_ref(&rekey));
    // Of one that is disabled nobody knows whether its key serves: it is enabled first.
    let one = resource(RANDOM, &["a/N"]);
    assert_eq!(done(&one, &facts(UNKNOWN, &[shown(false)])), [Effect::Enable(upn("a/N"))]);
    assert_eq!(done(&one, &facts(UNKNOWN, &[shown(true)])), [rekey]);
    let password = resource(Kind::Password, &["a/N"]);
    assert_eq!(done(&password, &facts(BAD, &[shown(true)])), [Effect::SetPassword(upn("a/N"))]);
    assert_eq!(done(&password, &facts(GOOD, &[None])), [Effect::CreateWithPassword(upn("a/N"))]);
    assert_eq!(
        done(&password, &facts(Held::Nothing, &[shown(false)])),
        [Effect::WritePassword, Effect::SetPassword(upn("a/N")), Effect::Enable(upn("a/N"))]
    );
}

#[test]
fn old_keys_are_kept_for_a_day_where_that_is_asked_for() {
    let keeping = resource(Kind::Random { keep_old: true }, &["a/N"]);
    assert_eq!(done(&keeping, &facts(BAD, &[shown(true)])), [Effect::NoteOldKeys, Effect::Rekey { keep_old: true }]);
    assert!(!done(&keeping, &facts(Held::Nothing, &[None])).contains(&Effect::NoteOldKeys), "it has none");
    let since = |seconds: u64| Resource {
        has_old_keys: true,
        ..annotated(Kind::Random { keep_old: true }, REKEYED_AT, &(NOW - seconds).to_string())
    };
    assert_eq!(done(&since(KEEP_OLD - 1), &facts(GOOD, &[shown(true)])), []);
    assert_eq!(done(&since(KEEP_OLD), &facts(GOOD, &[shown(true)])), [Effect::Trim, Effect::ForgetOldKeys]);
    assert_eq!(trim_at(&since(5)), Some(NOW - 5 + KEEP_OLD));
    let nonsense = Resource { has_old_keys: true, ..annotated(RANDOM, REKEYED_AT, "soon") };
    assert_eq!(done(&nonsense, &facts(GOOD, &[shown(true)])), [Effect::Trim, Effect::ForgetOldKeys]);
    // Made anew meanwhile: the day begins again.
    let again = done(&since(KEEP_OLD), &facts(BAD, &[shown(true)]));
    assert_eq!(again, [Effect::NoteOldKeys, Effect::Rekey { keep_old: true }]);
}

#[test]
fn a_wish_for_a_new_key_is_fulfilled_once() {
    let force = |kind, held| done(&annotated(kind, FORCE_REKEY, ""), &facts(held, &[shown(true)]));
    assert_eq!(force(RANDOM, GOOD), [Effect::Rekey { keep_old: false }, Effect::ForgetForce]);
    let password = [Effect::WritePassword, Effect::SetPassword(upn("a/N")), Effect::ForgetForce];
    assert_eq!(force(Kind::Password, GOOD), password);
    assert_eq!(force(Kind::PresetPassword, GOOD), [Effect::ForgetForce], "nobody makes up what somebody else chose");
    let suspended = annotated(RANDOM, SUSPEND, "");
    assert_eq!(decide(&suspended, &facts(BAD, &[None])), Decision::Leave);
}

#[test]
fn removal_disables_and_leaves_what_others_have() {
    let gone = |kind| Resource { deleting: true, ..resource(kind, &["a/N", "b/N"]) };
    let all = [Effect::RemoveKey, Effect::Disable(upn("a/N")), Effect::Disable(upn("b/N")), Effect::Release];
    assert_eq!(done(&gone(RANDOM), &facts(GOOD, &[shown(true), shown(true)])), all);
    assert_eq!(done(&gone(RANDOM), &facts(Held::Nothing, &[None, shown(false)])), [Effect::Release]);
    assert_eq!(done(&gone(RANDOM), &facts(Held::Foreign, &[None, None])), [Effect::Release]);
    let mut others = facts(GOOD, &[shown(true), shown(true)]);
    (others.wanted_by_others, others.place_wanted_by_others) = (vec![true, false], true);
    assert_eq!(done(&gone(RANDOM), &others), [Effect::Disable(upn("b/N")), Effect::Release]);
    // What is suspended goes, too; what was never taken up goes without anything being done.
    let mut suspended = annotated(RANDOM, SUSPEND, "");
    suspended.deleting = true;
    assert_eq!(done(&suspended, &facts(Held::Nothing, &[shown(true)])), [Effect::Disable(upn("a/N")), Effect::Release]);
    let free = Resource { finalizers: vec!["another's".into()], ..gone(RANDOM) };
    assert_eq!(done(&free, &facts(GOOD, &[shown(true), shown(true)])), []);
    let unreadable = Resource { wanted: Err(Refused("no".into())), ..gone(RANDOM) };
    assert_eq!(done(&unreadable, &facts(Held::Nowhere, &[])), [Effect::Release]);
}

#[test]
fn what_cannot_be_done_is_told_and_changes_nothing() {
    let one = resource(RANDOM, &["a/N"]);
    assert!(refused(&one, &facts(Held::Foreign, &[shown(true)])).contains("the Secret s is not ours"));
    let mut taken = facts(GOOD, &[shown(true)]);
    taken.taken_by = Some("KerberosKey x".into());
    assert!(refused(&one, &taken).contains("KerberosKey x"));
    let preset = resource(Kind::PresetPassword, &["a/N"]);
    assert!(refused(&preset, &facts(Held::Nothing, &[None])).contains("s/k"));
    let bad = Resource { wanted: Err(Refused("the type is none".into())), ..one };
    assert_eq!(refused(&bad, &facts(Held::Nowhere, &[])), "the type is none");
}

#[test]
fn disabling_is_for_those_that_exist() {
    let both = resource(Kind::Disabled, &["a/N", "b/N"]);
    assert_eq!(done(&both, &facts(Held::Nowhere, &[shown(true), None])), [Effect::Disable(upn("a/N"))]);
}

#[test]
fn the_operators_own_key_is_looked_at_and_left_alone() {
    let own = |held| Facts { own: true, ..facts(held, &[shown(true)]) };
    assert_eq!(done(&resource(RANDOM, &["a/N"]), &own(GOOD)), []);
    for (resource, held) in [(resource(RANDOM, &["a/N"]), BAD), (annotated(RANDOM, FORCE_REKEY, ""), GOOD)] {
        assert!(refused(&resource, &own(held)).contains("bootstrap link"));
    }
    let gone = Resource { deleting: true, ..resource(RANDOM, &["a/N"]) };
    assert_eq!(done(&gone, &own(GOOD)), [Effect::Release]);
}
