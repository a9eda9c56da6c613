//! What must work, so that the attacks fail for the right reason.

use latchkey_attestation::LockExpectation;
use latchkey_channel::{
    AttesterSet, Kind, NoProof, PeerProof, PinnedKeyAttester, PinnedKeyVerifier, Purpose, VerifierSet, accept, connect,
};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use std::sync::Arc;

use crate::support::world::{
    CLUSTER, TIME, demand, fresh_node, init_terms, join_terms, locked_node, meet, policy, terms, wire,
};

#[test]
fn a_node_and_a_join_service_with_a_pinned_key_admit_each_other() {
    for purpose in [Purpose::Join, Purpose::Rejoin] {
        let (client, server) = join_terms();
        let (node, service) = meet(purpose, client, server);
        let (node, service) = (node.unwrap(), service.unwrap());
        assert!(matches!(node.peer(), PeerProof::PinnedKey(_)));
        assert!(!service.peer().admission().unwrap().locked());
        assert_eq!(node.purpose(), purpose);
        assert_eq!(node.bindings(), service.bindings());
        assert_eq!(node.audit_id(), service.audit_id());
    }
}

#[test]
fn two_nodes_admit_each_other_by_their_tpms() {
    let (node, service) = (fresh_node(), locked_node(CLUSTER));
    let (of_service, of_node) =
        (demand(&[&service], LockExpectation::Locked), demand(&[&node], LockExpectation::Unlocked));
    let (node, service) = meet(Purpose::Join, terms(node, of_service), terms(service, of_node));
    let PeerProof::Tpm(peer) = node.as_ref().unwrap().peer() else { panic!("no TPM") };
    assert_eq!(peer.lock().map(|lock| lock.0), Some(CLUSTER));
    assert_eq!(peer.verified().binding(), node.as_ref().unwrap().bindings().server.as_bytes());
    let PeerProof::Tpm(peer) = service.as_ref().unwrap().peer() else { panic!("no TPM") };
    assert_eq!(peer.lock(), None);
}

#[test]
fn a_command_verifies_a_node_without_showing_anything() {
    for purpose in [Purpose::Init, Purpose::Recover] {
        let (client, server) = init_terms();
        let (command, node) = meet(purpose, client, server);
        assert_eq!(command.unwrap().peer().kind(), Kind::Tpm);
        assert_eq!(node.unwrap().peer().kind(), Kind::None);
    }
    for (purpose, lock, node) in [
        (Purpose::Attach, LockExpectation::LockedTo(CLUSTER), locked_node(CLUSTER)),
        (Purpose::Verify, LockExpectation::Any, locked_node(CLUSTER)),
        (Purpose::Verify, LockExpectation::Any, fresh_node()),
        (Purpose::Verify, LockExpectation::Unlocked, fresh_node()),
    ] {
        let of_node = demand(&[&node], lock);
        let (command, _) = meet(purpose, terms(NoProof, of_node), terms(node, NoProof));
        assert_eq!(command.unwrap().peer().kind(), Kind::Tpm, "{purpose}");
    }
}

#[test]
fn a_node_takes_a_pinned_key_or_a_tpm_whichever_the_service_has() {
    let (node, service_tpm, service_key) = (fresh_node(), locked_node(CLUSTER), PinnedKeyAttester::generate().unwrap());
    let either = VerifierSet(vec![
        Arc::new(PinnedKeyVerifier::new([service_key.hash()])),
        Arc::new(demand(&[&service_tpm], LockExpectation::LockedTo(CLUSTER))),
    ]);
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let (node, service_key): (Arc<dyn latchkey_channel::Attester>, Arc<dyn latchkey_channel::Attester>) =
        (Arc::new(node), Arc::new(service_key));

    let both = AttesterSet(vec![service_key.clone(), Arc::new(service_tpm)]);
    for (shown, service) in [(Kind::PinnedKey, AttesterSet(vec![service_key])), (Kind::Tpm, both)] {
        let client = terms(AttesterSet(vec![node.clone()]), either.clone());
        let (node, service) = meet(Purpose::Join, client, terms(service, of_node.clone()));
        assert_eq!(node.unwrap().peer().kind(), shown);
        service.unwrap();
    }
}

#[test]
fn evidence_is_observed_once_verified_even_if_the_policy_refuses_it() {
    let node = fresh_node();
    let (policy, references) = policy(&[&node]);
    let (seen, seen_by) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(std::sync::Mutex::new(0)));
    let (sink, count) = (seen.clone(), seen_by.clone());
    let demanded = latchkey_channel::TpmVerifier::new(policy, references, LockExpectation::Locked).observed_by(
        Arc::new(move |_, _, verified| {
            sink.lock().unwrap().push(verified.pcrs().clone());
            *count.lock().unwrap() += 1;
        }),
    );
    let (command, _) = meet(Purpose::Verify, terms(NoProof, demanded), terms(node, NoProof));
    assert_eq!(command.unwrap_err().code().as_str(), "not-locked");
    assert_eq!(*seen_by.lock().unwrap(), 1);
    assert_eq!(seen.lock().unwrap()[0].value(15).unwrap().0, [0; 32]);
}

#[test]
fn bytes_pass_both_ways_and_each_direction_ends_by_itself() {
    let (client, server) = join_terms();
    let (node, service) = meet(Purpose::Join, client, server);
    let (mut node, mut service) = (node.unwrap(), service.unwrap());
    let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let expected = sent.clone();
    let asking = async {
        node.write_all(&sent).await.unwrap();
        node.close().await.unwrap();
        // Our direction is closed, the other is not.
        let mut answer = String::new();
        node.read_to_string(&mut answer).await.unwrap();
        assert!(node.write_all(b"more").await.is_err());
        answer
    };
    let answering = async {
        let mut asked = Vec::new();
        service.read_to_end(&mut asked).await.unwrap();
        service.write_all(b"that was all of it").await.unwrap();
        service.close().await.unwrap();
        asked
    };
    let (answer, asked) = latchkey_test_support::block_on(smol::future::zip(asking, answering));
    assert!(asked == expected);
    assert_eq!(answer, "that was all of it");
}

#[test]
fn truncation_is_an_error_and_not_an_end() {
    let (client, server) = join_terms();
    let (node, service) = meet(Purpose::Join, client, server);
    let (mut node, mut service) = (node.unwrap(), service.unwrap());
    latchkey_test_support::block_on(async {
        node.write_all(b"half a sent").await.unwrap();
        node.flush().await.unwrap();
        // The transport ends without close_notify, as an attacker on the path would end it.
        drop(node);
        let mut received = Vec::new();
        let error = service.read_to_end(&mut received).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        assert_eq!(received, b"half a sent");
    });
}

/// A server spawns each connection: what it awaits must be able to move between threads.
#[test]
fn handshakes_and_streams_can_be_spawned() {
    let (client, server) = join_terms();
    let (near, far) = wire();
    let one = smol::spawn(connect(near, Purpose::Join, client, TIME));
    let reception = move |_| Some(server.clone());
    let other = smol::spawn(async move { accept(far, &reception, TIME).await });
    let (mut node, mut service) = latchkey_test_support::block_on(async { (one.await.unwrap(), other.await.unwrap()) });
    let echo = smol::spawn(async move {
        let mut bytes = [0; 4];
        service.read_exact(&mut bytes).await.unwrap();
        service.write_all(&bytes).await.unwrap();
        service.flush().await.unwrap();
        service
    });
    latchkey_test_support::block_on(async {
        node.write_all(b"ping").await.unwrap();
        node.flush().await.unwrap();
        let mut bytes = [0; 4];
        node.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        drop(echo.await);
    });
}
