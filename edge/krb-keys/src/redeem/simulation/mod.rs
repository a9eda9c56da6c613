//! Redeeming, killed between any two effects, with time passing, and twice at once.

mod world;

use latchkey_factory_plus::ClusterName;
use latchkey_kerberos::AdminKey;
use smol::block_on;
use zeroize::Zeroizing;

use super::redeem;
use crate::failure::Failure;
use crate::names::{CLAIM_SECRET, CLIENT, FLUX_SECRET, Names, OWN_SECRET, PASSWORD, USERNAME};
use crate::secret::Data;
use world::{CLUSTER, Kill, Principal, Sim};

fn names() -> Names {
    Names::of(CLUSTER, &"Nord".parse::<ClusterName>().unwrap(), &"R".parse().unwrap())
}

fn attempt(sim: &Sim) -> Result<(), Failure> {
    block_on(redeem(sim, &names()))
}

fn held(sim: &Sim, secret: &str, key: &str) -> Option<Zeroizing<Vec<u8>>> {
    sim.with(|state| state.secrets.get(secret)?.2.get(key).cloned())
}

/// What must hold whenever redeeming has succeeded.
fn is_whole(sim: &Sim) {
    let names = names();
    let own = AdminKey::Password(held(sim, OWN_SECRET, PASSWORD).unwrap());
    let keytab = AdminKey::KeytabBytes(held(sim, OWN_SECRET, CLIENT).unwrap());
    let flux = AdminKey::Password(held(sim, FLUX_SECRET, PASSWORD).unwrap());
    assert_eq!(held(sim, FLUX_SECRET, USERNAME).unwrap().as_slice(), b"op1flux/Nord@R");
    sim.with(|state| {
        state.authenticate(&names.own, &own).unwrap();
        state.authenticate(&names.own, &keytab).unwrap();
        state.authenticate(&names.flux, &flux).unwrap();
        let principals: Vec<&str> = state.kdc.keys().map(String::as_str).collect();
        assert_eq!(principals, ["op1flux/Nord@R", "op1krbkeys/Nord@R"]);
        assert!(state.kdc.values().all(|known| known.expires.is_none() && known.password_expires.is_none()));
        let secrets: Vec<&str> = state.secrets.keys().map(String::as_str).collect();
        assert_eq!(secrets, [FLUX_SECRET, CLAIM_SECRET, OWN_SECRET]);
    });
}

/// Whether the KDC has the password that is in our Secret.
fn taken_over(sim: &Sim) -> bool {
    let stored = held(sim, OWN_SECRET, PASSWORD);
    let known = sim.with(|state| state.kdc.get("op1krbkeys/Nord@R").map(|known| known.password.clone()));
    stored.is_some_and(|stored| known.is_some_and(|known| known == *stored))
}

fn cluster_from_before(sim: &Sim) {
    let own = |password: &[u8], version| Principal {
        password: password.to_vec(),
        version,
        expires: None,
        password_expires: None,
        enabled: true,
    };
    sim.with(|state| {
        state.kdc.insert("op1krbkeys/Nord@R".into(), own(b"of the old hardware", 7));
        state.kdc.insert("op1flux/Nord@R".into(), Principal { enabled: false, ..own(b"also", 3) });
    });
}

#[test]
fn killed_anywhere_it_ends_well_when_it_is_run_again() {
    let mut kills = 0;
    for (old, minutes) in [(false, 0), (false, 11), (true, 0), (true, 11)] {
        for at in 0.. {
            let mut survived = 0;
            for after in [false, true] {
                let sim = Sim::default();
                if old {
                    cluster_from_before(&sim);
                }
                sim.with(|state| state.kill = Some(Kill { at, after }));
                if attempt(&sim).is_ok() {
                    is_whole(&sim);
                    survived += 1;
                    continue;
                }
                kills += 1;
                let has_key = taken_over(&sim);
                sim.with(|state| {
                    (state.dead, state.kill, state.now) = (false, None, minutes * 60);
                    // With its own key in the KDC it needs no link, unless the principal has ended meanwhile.
                    state.link_over = has_key && minutes == 0;
                });
                attempt(&sim).unwrap_or_else(|error| panic!("old {old}, {minutes} min, {at} {after}: {error}"));
                is_whole(&sim);
            }
            if survived == 2 {
                break;
            }
        }
    }
    assert!(kills > 100, "{kills}");
}

#[test]
fn killed_twice_it_ends_well_too() {
    for first in 0..30 {
        for second in 0..30 {
            let sim = Sim::default();
            for at in [first, second] {
                sim.with(|state| {
                    (state.dead, state.effects) = (false, 0);
                    state.kill = Some(Kill { at, after: at % 2 == 0 });
                });
                let _killed = attempt(&sim);
            }
            sim.with(|state| (state.dead, state.kill) = (false, None));
            attempt(&sim).unwrap();
            is_whole(&sim);
        }
    }
}

#[test]
fn run_again_it_changes_nothing() {
    let sim = Sim::default();
    attempt(&sim).unwrap();
    let seen = |sim: &Sim| sim.with(|state| (state.secrets.clone(), state.kdc.clone(), state.redemptions));
    let before = seen(&sim);
    sim.with(|state| state.link_over = true);
    attempt(&sim).unwrap();
    assert!(seen(&sim) == before);
    assert_eq!(before.2, 1);
}

#[test]
fn two_at_once_end_with_one_key() {
    let sim = Sim::default();
    let names = names();
    let again = async || {
        for _ in 0..10 {
            match redeem(&sim, &names).await {
                Ok(()) => return,
                Err(Failure::Again(_)) => {}
                Err(Failure::Refused(why)) => panic!("{why}"),
            }
        }
        panic!("neither lets the other be");
    };
    block_on(smol::future::zip(again(), again()));
    is_whole(&sim);
}

#[test]
fn secrets_that_the_manifests_made_empty_are_filled() {
    let sim = Sim::default();
    for name in [CLAIM_SECRET, OWN_SECRET, FLUX_SECRET] {
        sim.with(|state| state.secrets.insert(name.to_owned(), (true, 1, Data::default())));
    }
    attempt(&sim).unwrap();
    is_whole(&sim);
}

#[test]
fn a_secret_of_somebody_else_is_left_alone_and_nothing_is_redeemed() {
    for name in [CLAIM_SECRET, OWN_SECRET, FLUX_SECRET] {
        let sim = Sim::default();
        let theirs = Data::default().with(PASSWORD, Zeroizing::new(b"theirs".to_vec()));
        sim.with(|state| state.secrets.insert(name.to_owned(), (false, 1, theirs.clone())));
        let refused = attempt(&sim).unwrap_err();
        assert!(
            matches!(&refused, Failure::Refused(why) if why.contains(name) && why.contains("managed-by")),
            "{refused}"
        );
        sim.with(|state| {
            assert!(state.secrets[name] == (false, 1, theirs));
            assert_eq!((state.redemptions, state.kdc.len()), (0, 0));
        });
    }
}

#[test]
fn new_hardware_takes_the_accounts_over_and_a_disabled_one_is_not_forced() {
    let sim = Sim::default();
    cluster_from_before(&sim);
    attempt(&sim).unwrap();
    is_whole(&sim);
    // Its cluster is deleted: the KDC lets nobody in.
    sim.with(|state| state.kdc.get_mut("op1krbkeys/Nord@R").unwrap().enabled = false);
    let refused = attempt(&sim).unwrap_err();
    assert!(matches!(&refused, Failure::Refused(why) if why.contains("disabled")), "{refused}");
    assert_eq!(sim.with(|state| state.redemptions), 1);
}

#[test]
fn a_link_that_another_edge_redeemed_is_told() {
    let sim = Sim::default();
    sim.with(|state| state.claimed = Some("somebody else's".into()));
    assert_eq!(attempt(&sim), Err(Failure::Refused("another edge redeemed this link".into())));
    sim.with(|state| assert!(state.kdc.is_empty()));
}
