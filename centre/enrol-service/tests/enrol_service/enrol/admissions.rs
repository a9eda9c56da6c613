//! Who is taken up: by an invitation, by a rule, by the operator's word.

use super::machine::Machine;
use super::rig::{Rig, now, rule};
use latchkey_api::v1::enrol_response::Outcome;
use latchkey_api::v1::{Enrolled, EnrolmentHeld};
use latchkey_cluster_store::registration::{Admitted, Wanted};
use latchkey_factory_plus::cluster::{Configuration, RegisteredBy, Registration};
use latchkey_factory_plus::uuids::application;
use latchkey_factory_plus::{Uuid, manager::Phase};
use latchkey_test_support::block_on;

pub(crate) fn enrolled(outcome: Outcome) -> Enrolled {
    match outcome {
        Outcome::Enrolled(enrolled) => enrolled,
        Outcome::Held(held) => panic!("held: {held:?}"),
    }
}

fn held(outcome: Outcome) -> EnrolmentHeld {
    match outcome {
        Outcome::Held(held) => held,
        Outcome::Enrolled(enrolled) => panic!("enrolled: {enrolled:?}"),
    }
}

#[test]
fn an_invited_machine_gets_its_clusters_manifests_and_its_evidence_stands_with_the_cluster() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    let token = rig.invite("Press_4");
    let service = rig.start();
    let got = enrolled(service.enrol(&machine, Some(&token)).unwrap());
    assert_eq!((got.name.as_str(), got.namespace.as_str()), ("Press_4", "fplus-edge"));
    let names: Vec<_> = got.manifests.iter().map(|manifest| manifest.name.as_str()).collect();
    assert_eq!(names, ["namespace.yaml", "edge-bootstrap.yaml", "self-link.yaml"]);
    assert!(!got.bootstrap_token.is_empty());
    let cluster: Uuid = got.cluster_uuid.parse().unwrap();
    rig.centre.until_phase(cluster, Phase::Ready);
    let db = rig.centre.db();
    let entry = block_on(db.entry::<Configuration>(application::EDGE_CLUSTER_CONFIGURATION, cluster)).unwrap();
    assert_eq!(entry.unwrap().0.name.as_str(), "Press_4", "what the node would like to be called counts nothing");
    let entry = block_on(db.entry::<Registration>(application::EDGE_CLUSTER_REGISTRATION, cluster)).unwrap().unwrap().0;
    assert_eq!(entry.ek_sha256, machine.ek().to_string());
    assert_eq!((entry.image.name.as_str(), entry.image.version.as_str()), ("image", "1.0.0"));
    assert_eq!(entry.by, RegisteredBy::Invitation(token.hash().to_string()));
    assert!(now() - entry.at < 120 && entry.policy_sha256.len() == 64);

    // Asked again, it is the same cluster, with another link; the link before is over.
    let again = enrolled(service.enrol(&machine, None).unwrap());
    assert_eq!(again.cluster_uuid, got.cluster_uuid);
    assert_ne!(again.bootstrap_token, got.bootstrap_token);
    let other = Machine::new(2);
    rig.trust(&[machine.ek().to_string(), other.ek().to_string()]);
    let mut service = service;
    service.next_line(&["Configuration reloaded", "attestation"]);
    assert_eq!(service.enrol(&other, Some(&token)).unwrap_err().code(), "invitation-used");
}

#[test]
fn a_rule_takes_up_so_many_a_day_and_the_operator_the_next() {
    let machines = [1, 2].map(Machine::new);
    let rig = Rig::new(&[&machines[0], &machines[1]]);
    rig.rules(&rule(1));
    let service = rig.start();
    assert_eq!(enrolled(service.enrol(&machines[0], None).unwrap()).name, "Line_1");
    let waits = held(service.enrol(&machines[1], None).unwrap());
    assert_eq!(waits.ek_sha256, machines[1].ek().to_string());
    let shown = rig.store.held().unwrap();
    assert_eq!((shown[0].reference(), shown[0].why.as_str()), (waits.reference, "enrol-quota-reached"));
    let word = Admitted::new(machines[1].ek(), shown[0].disk, Wanted::called("Press_4".parse().unwrap()), now());
    rig.store.admit(&word).unwrap();
    assert_eq!(enrolled(service.enrol(&machines[1], None).unwrap()).name, "Press_4");
    assert_eq!(rig.store.held().unwrap(), []);
}

#[test]
fn names_that_somebody_took_on_the_page_are_not_given_and_no_invitation_is_spent_on_them() {
    let machines = [1, 2].map(Machine::new);
    let rig = Rig::new(&[&machines[0], &machines[1]]);
    rig.rules(&rule(9));
    let on_page = ["Line_1", "Press_4"].map(|name| rig.centre.ready(name));
    let mut service = rig.start();
    assert_eq!(enrolled(service.enrol(&machines[0], None).unwrap()).name, "Line_2");
    let token = rig.invite("press_4");
    assert_eq!(service.enrol(&machines[1], Some(&token)).unwrap_err().code(), "enrol-name-taken");
    service.next_line(&["The centre refuses a name", "press_4", &on_page[1].to_string()]);
    rig.centre.delete(on_page[1]);
    rig.centre.until_phase(on_page[1], Phase::Deleted);
    rig.centre.decommission(on_page[1]);
    // Not used yet: the machine asks again when the name is free.
    assert_eq!(enrolled(service.enrol(&machines[1], Some(&token)).unwrap()).name, "press_4");
}

#[test]
fn whoever_is_not_invited_waits_and_is_shown_by_its_key() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    let mut service = rig.start();
    let waits = held(service.enrol(&machine, None).unwrap());
    assert!(machine.ek().to_string().starts_with(&waits.reference));
    assert!((1..=3600).contains(&waits.ask_again_seconds));
    let line = service.next_line(&["Decision", "held", "enrol-not-invited"]);
    assert!(!line.contains("administrator"), "{line}");
    let shown = rig.store.held().unwrap();
    assert_eq!(
        (shown.len(), shown[0].node_name.as_str(), shown[0].image.as_str()),
        (1, "administrator", "test/image 1.0.0")
    );
}
