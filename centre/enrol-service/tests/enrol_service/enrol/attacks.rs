//! Whom the service does not take up.

use super::admissions::enrolled;
use super::machine::{IMAGE, Machine};
use super::rig::{Peer, Refused, Rig, now, reference, request, revoked, rule};
use latchkey_channel::{NoProof, Purpose, SpkiHash};
use latchkey_cluster_store::registration::InvitationToken;
use std::fs;
use std::sync::Arc;

#[test]
fn evidence_that_is_not_that_of_a_locked_node_of_the_image_is_refused() {
    let (good, unlocked, other) =
        (Machine::new(1), Machine::new(2).locked_as([0; 32]), Machine::new(3).with_image([1; 32]));
    let unknown = Machine::new(4);
    let rig = Rig::new(&[&good, &unlocked, &other]);
    rig.rules(&rule(10));
    let mut service = rig.start();
    for (machine, code) in [(&unlocked, "code=not-locked"), (&other, "differs"), (&unknown, "code=ek-")] {
        let refused = service.enrol(machine, None).unwrap_err();
        assert!(matches!(&refused, Refused::Channel(_)), "{code}: {refused:?}");
        service.next_line(&["Admission", "refused", code]);
    }
    let proofless = service.ask(Arc::new(NoProof), Purpose::Enrol, &request(&good, vec![]), None);
    assert!(matches!(proofless, Err(Refused::Channel(_))));
    for purpose in [Purpose::Join, Purpose::Report, Purpose::Verify] {
        let refused = service.ask(Arc::new(good.clone()), purpose, &request(&good, vec![]), None);
        assert!(matches!(refused, Err(Refused::Channel(_))), "{purpose}");
    }
    enrolled(service.enrol(&good, None).unwrap());
}

#[test]
fn without_a_policy_nobody_is_admitted() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let documents = rig.store.documents();
    let policy = documents.path().join("policy.json");
    let text = fs::read_to_string(&policy).unwrap();
    fs::remove_file(&policy).unwrap();
    let mut service = rig.start();
    let token = rig.invite("Press_4");
    let refused = service.enrol(&machine, Some(&token)).unwrap_err();
    assert!(matches!(&refused, Refused::Channel(_)), "{refused:?}");
    service.next_line(&["Admission", "refused", "code=policy-empty"]);
    documents.write_policy(&text).unwrap();
    service.next_line(&["Configuration reloaded", "attestation"]);
    enrolled(service.enrol(&machine, Some(&token)).unwrap());
    // Taken away, it is as if there had never been one.
    fs::remove_file(&policy).unwrap();
    service.next_line(&["Configuration reloaded", "attestation"]);
    assert!(matches!(service.enrol(&machine, None), Err(Refused::Channel(_))));
}

#[test]
fn a_node_speaks_to_no_service_with_another_key() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let service = rig.start();
    let pinned = Peer { key: SpkiHash([7; 32]), ..*service };
    let refused = pinned.enrol(&machine, None);
    assert!(matches!(refused, Err(Refused::Channel(_))), "{refused:?}");
    assert_eq!(rig.store.held().unwrap(), []);
}

#[test]
fn a_lock_on_another_cluster_and_a_cluster_of_another_machine_are_refused() {
    let (first, second) = (Machine::new(1), Machine::new(2).locked_as([1; 32]));
    let rig = Rig::new(&[&first, &second]);
    rig.rules(&rule(10));
    let service = rig.start();
    enrolled(service.enrol(&first, None).unwrap());
    assert_eq!(service.enrol(&second, None).unwrap_err().code(), "enrol-cluster-of-another-machine");
    let elsewhere = first.locked_as([9; 32]);
    assert_eq!(service.enrol(&elsewhere, None).unwrap_err().code(), "enrol-locked-to-another-cluster");
}

#[test]
fn invitations_that_are_over_taken_back_or_made_up_are_refused() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    let (old, back) = (rig.invite_at("Press_4", now() - 7200), rig.invite("Press_5"));
    assert!(rig.store.revoke(&back.hash()).unwrap());
    let service = rig.start();
    let code = |token: &InvitationToken| service.enrol(&machine, Some(token)).unwrap_err().code();
    assert_eq!(code(&old), "invitation-expired");
    assert_eq!(code(&back), "invitation-unknown");
    assert_eq!(code(&InvitationToken::random().unwrap()), "invitation-unknown");
}

#[test]
fn a_policy_that_is_swapped_while_a_machine_is_connected_counts() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let mut service = rig.start();
    let peer = *service;
    let mut swap = || {
        rig.store.documents().write_reference(&reference("1.1.0", [2; 32])).unwrap();
        service.next_line(&["Configuration reloaded", "attestation"]);
    };
    let asked = peer.ask(Arc::new(machine.clone()), Purpose::Enrol, &request(&machine, vec![]), Some(&mut swap));
    assert_eq!(asked.unwrap_err().code(), "enrol-no-longer-admitted");
    assert!(matches!(service.enrol(&machine, None), Err(Refused::Channel(_))));
}

#[test]
fn a_machine_whose_image_is_revoked_is_refused_even_while_it_is_connected() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let token = rig.invite("Press_4");
    let first = reference("1.0.0", IMAGE);
    rig.store.documents().write_reference(&first).unwrap();
    let mut service = rig.start();
    let peer = *service;
    let mut revoke = || {
        rig.store.documents().write_reference(&revoked(&first)).unwrap();
        service.next_line(&["Configuration reloaded", "attestation"]);
    };
    let asking = request(&machine, token.expose().to_vec());
    let asked = peer.ask(Arc::new(machine.clone()), Purpose::Enrol, &asking, Some(&mut revoke));
    assert_eq!(asked.unwrap_err().code(), "enrol-no-longer-admitted");
    assert!(matches!(service.enrol(&machine, Some(&token)), Err(Refused::Channel(_))));
    service.next_line(&["Admission", "refused", "code=image-revoked"]);
    assert_eq!(rig.store.held().unwrap(), []);
}

#[test]
fn a_machine_that_is_shut_out_is_refused() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    fs::write(rig.path("enrol").join("denied").join(machine.ek().to_string()), "").unwrap();
    let service = rig.start();
    assert_eq!(service.enrol(&machine, None).unwrap_err().code(), "enrol-denied");
}

/// Whom it shut out is not known any more: nobody is let in for that, and nothing says that there was nobody.
#[test]
fn places_that_are_gone_are_not_made_anew_and_what_was_in_them_counts_until_the_service_ends() {
    let (denied, other) = (Machine::new(1), Machine::new(2));
    let rig = Rig::new(&[&denied, &other]);
    rig.rules(&rule(10));
    let places = ["denied", "invitations", "held", "admitted"].map(|name| rig.path("enrol").join(name));
    fs::write(places[0].join(denied.ek().to_string()), "").unwrap();
    let mut service = rig.start();
    fs::remove_dir_all(&places[0]).unwrap();
    service.next_line(&["Configuration cannot be used", "denials", "cluster-place-missing"]);
    assert_eq!(service.enrol(&denied, None).unwrap_err().code(), "enrol-denied");
    enrolled(service.enrol(&other, None).unwrap());
    service.kill();
    fs::create_dir(&places[0]).unwrap();
    for place in &places {
        fs::remove_dir_all(place).unwrap();
        let ended = latchkey_test_support::output(&mut rig.command()).unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("cluster-place-missing") && said.contains(&*place.to_string_lossy()), "{said}");
        assert!(!place.exists(), "it was made anew");
        fs::create_dir(place).unwrap();
    }
}
