//! Somebody between a machine and the service, who has a TLS session of its own to each and reads and writes every message.

use super::admissions::enrolled;
use super::machine::{Machine, Replaying};
use super::rig::{Peer, Refused, Rig, Service, reference, request, revoked, rule};
use latchkey_attestation::EkDigest;
use latchkey_channel::frame::Slot;
use latchkey_channel::message::{Admitted, Message};
use latchkey_channel::rig::{SharedKey, receive, send, unproven};
use latchkey_channel::tls::TlsStream;
use latchkey_channel::{Attester, ChannelError, PinnedKeyVerifier, Purpose, Side, Terms, TpmAttester, connect};
use latchkey_swtpm_rig::Swtpm;
use latchkey_test_support::block_on;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, extended};
use smol::future::zip;
use smol::net::TcpStream;
use smol::net::unix::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than anything takes here.
const TIME: Duration = Duration::from_mins(2);
const IMAGE_EVENT: &[u8] = b"the image of this test";
const LOCK_EVENT: &[u8] = b"the cluster of this test";

/// The two ends of who is between.
struct Middle {
    node: TlsStream<UnixStream>,
    service: TlsStream<TcpStream>,
}

impl Middle {
    async fn between(node: UnixStream, peer: Peer) -> Self {
        let service = TcpStream::connect(peer.address).await.unwrap();
        let keys = [SharedKey::new(), SharedKey::new()];
        let ends = zip(unproven(&keys[0], node, Side::Server), unproven(&keys[1], service, Side::Client)).await;
        Self { node: ends.0.unwrap().0, service: ends.1.unwrap().0 }
    }

    async fn pass_up(&mut self, slot: Slot) {
        send(&mut self.service, &receive(&mut self.node, slot).await.unwrap()).await.unwrap();
    }

    async fn pass_down(&mut self, slot: Slot) {
        send(&mut self.node, &receive(&mut self.service, slot).await.unwrap()).await.unwrap();
    }
}

/// How it ends for a node whose messages are passed on as they are, or whose own evidence comes back to it as the service's.
fn diverted(peer: Peer, attester: Arc<dyn Attester>, reflect: bool) -> ChannelError {
    let terms = Terms { attester, verifier: Arc::new(PinnedKeyVerifier::new([peer.key])) };
    let (near, far) = UnixStream::pair().unwrap();
    let middle = async {
        let mut middle = Middle::between(far, peer).await;
        middle.pass_up(Slot::Hello).await;
        // The service's own challenge, since a TPM opens none that was not made for it.
        middle.pass_down(Slot::Challenge).await;
        if reflect {
            let Ok(Message::Proof(proof)) = receive(&mut middle.node, Slot::Proof).await else { panic!("no proof") };
            let back = Message::Admitted(Box::new(Admitted { evidence: proof.evidence }));
            send(&mut middle.node, &back).await.unwrap();
        } else {
            middle.pass_up(Slot::Proof).await;
            middle.pass_down(Slot::ServerVerdict).await;
        }
    };
    block_on(zip(connect(near, Purpose::Enrol, terms, TIME), middle)).0.unwrap_err()
}

/// Genuine evidence, on channels that it was not made for.
fn counts_on_its_own_channel_alone(service: &mut Service, machine: &Machine, attester: &Arc<dyn Attester>) {
    let peer = service.peer;
    let refused = diverted(peer, Arc::clone(attester), false);
    assert!(matches!(refused, ChannelError::PeerRefused(_)), "{refused}");
    service.next_line(&["Admission", "refused", "code=quote-binding-mismatch"]);
    let refused = diverted(peer, Arc::clone(attester), true);
    assert!(!matches!(refused, ChannelError::PeerRefused(_)), "the node finds it out: {refused}");
    let replaying = Arc::new(Replaying { machine: Arc::clone(attester), shown: Mutex::default() });
    let ask = || peer.ask(Arc::clone(&replaying) as _, Purpose::Enrol, &request(machine, vec![]), None);
    enrolled(ask().unwrap());
    let refused = ask();
    assert!(matches!(refused, Err(Refused::Channel(_))), "{refused:?}");
    service.next_line(&["Admission", "refused", "code=activation-failed"]);
}

#[test]
fn evidence_that_is_passed_on_sent_back_or_shown_again_is_refused() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let mut service = rig.start();
    let attester: Arc<dyn Attester> = Arc::new(machine.clone());
    counts_on_its_own_channel_alone(&mut service, &machine, &attester);
}

#[test]
fn a_real_tpm_enrols_once_it_is_locked_and_until_its_image_is_revoked() {
    let Some(tpm) = Swtpm::start() else { return };
    let mut booted = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P256L2).unwrap();
    booted.extend_event(11, IMAGE_EVENT).unwrap();
    let ek = EkDigest::of_public_area(&booted.ek_public().marshal()).unwrap();
    let booted = Arc::new(Mutex::new(booted));
    let attester: Arc<dyn Attester> = Arc::new(TpmAttester::new(Arc::clone(&booted)));
    // Its disk.
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    rig.trust(&[ek.to_string()]);
    let admitted = reference("1.0.0", extended(&[0; 32], IMAGE_EVENT));
    rig.store.documents().write_reference(&admitted).unwrap();
    let mut service = rig.start();
    let peer = service.peer;
    let ask = || peer.ask(Arc::clone(&attester), Purpose::Enrol, &request(&machine, vec![]), None);
    assert!(matches!(ask(), Err(Refused::Channel(_))));
    service.next_line(&["Admission", "refused", "code=not-locked"]);
    booted.lock().unwrap().extend_event(15, LOCK_EVENT).unwrap();
    counts_on_its_own_channel_alone(&mut service, &machine, &attester);
    rig.store.documents().write_reference(&revoked(&admitted)).unwrap();
    service.next_line(&["Configuration reloaded", "attestation"]);
    assert!(matches!(ask(), Err(Refused::Channel(_))), "it registered its cluster before, and gets no other link");
    service.next_line(&["Admission", "refused", "code=image-revoked"]);
}
