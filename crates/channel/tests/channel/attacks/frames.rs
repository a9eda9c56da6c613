//! A peer that does not follow the protocol: too much, too little, too slow, out of turn, not of the schema.

use std::sync::Arc;
use std::time::Duration;

use latchkey_attestation::{AttesterIdentity, LockExpectation};
use latchkey_channel::frame::{self, FrameError, Slot};
use latchkey_channel::message::{Admitted, Challenge, Demand, Evidence, Hello, Identity, Message, Proof};
use latchkey_channel::rig::{self, SharedKey};
use latchkey_channel::tls::TlsStream;
use latchkey_channel::{
    Attester, Blame, ChannelError, Kind, Kinds, NoProof, Nonce, PeerReason, PinnedKeyAttester, PinnedKeyVerifier,
    Purpose, Side, Step, VerifierSet, accept, connect,
};
use smol::future::zip;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::unix::UnixStream;

use crate::support::fake_tpm::FakeTpm;
use crate::support::world::{TIME, demand, fresh_node, independent_binding, init_terms, join_terms, terms, wire};

/// A hostile client against an honest join service: what the service makes of it.
fn attack_service<F: Future>(attack: impl FnOnce(TlsStream<UnixStream>) -> F) -> (ChannelError, F::Output) {
    let (_, server) = join_terms();
    let (near, far) = wire();
    let reception = move |purpose| (purpose == Purpose::Join).then(|| server.clone());
    let key = SharedKey::new();
    let attacker = async { attack(rig::unproven(&key, near, Side::Client).await.unwrap().0).await };
    let (service, output) = latchkey_test_support::block_on(zip(accept(far, &reception, TIME), attacker));
    (service.unwrap_err(), output)
}

/// A hostile node against an honest command.
fn attack_command<F: Future>(attack: impl FnOnce(TlsStream<UnixStream>) -> F) -> (ChannelError, F::Output) {
    let (client, _) = init_terms();
    let (near, far) = wire();
    let key = SharedKey::new();
    let attacker = async { attack(rig::unproven(&key, far, Side::Server).await.unwrap().0).await };
    let (command, output) = latchkey_test_support::block_on(zip(connect(near, Purpose::Init, client, TIME), attacker));
    (command.unwrap_err(), output)
}

async fn refusal(stream: &mut TlsStream<UnixStream>) -> PeerReason {
    match rig::receive(stream, Slot::Challenge).await {
        Ok(Message::Refused(body)) => body.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn send_json(stream: &mut TlsStream<UnixStream>, json: &str) {
    stream.write_all(&u32::try_from(json.len()).unwrap().to_be_bytes()).await.unwrap();
    stream.write_all(json.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Sends this JSON in place of a hello; gives the service's error code.
fn hello_json(json: &str) -> &'static str {
    let (error, told) = attack_service(|mut stream| async move {
        send_json(&mut stream, json).await;
        refusal(&mut stream).await
    });
    assert_eq!(error.blame(), Blame::Peer);
    assert!(matches!(told, PeerReason::ProtocolViolation | PeerReason::PurposeRefused), "{told}");
    error.code().as_str()
}

const NONCE: &str = "0707070707070707070707070707070707070707070707070707070707070707";

fn hello_with(purpose: &str, nonce: &str, rest: &str) -> String {
    format!(
        r#"{{"hello":{{"version":1,"purpose":"{purpose}","nonce":"{nonce}","identity":"none","accepts":["pinned-key"]{rest}}}}}"#
    )
}

#[test]
fn an_oversized_frame_is_refused_by_its_length_alone() {
    for announced in [u32::MAX, u32::try_from(Slot::Hello.limit()).unwrap() + 1] {
        let (error, told) = attack_service(|mut stream| async move {
            stream.write_all(&announced.to_be_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            // Not a byte of the body was sent: the refusal cannot have waited for it.
            refusal(&mut stream).await
        });
        assert_eq!(error.code().as_str(), "frame-too-long");
        assert_eq!(told, PeerReason::ProtocolViolation);
    }
}

#[test]
fn a_truncated_frame_is_an_error() {
    let whole = frame::encode(&Message::Admitted(Box::new(Admitted { evidence: Evidence::None }))).unwrap();
    for len in 0..whole.len() {
        for polite in [true, false] {
            let part = whole[..len].to_vec();
            let (error, ()) = attack_service(|mut stream| async move {
                stream.write_all(&part).await.unwrap();
                stream.flush().await.unwrap();
                if polite {
                    stream.close().await.unwrap();
                }
            });
            assert_eq!(error.code().as_str(), "frame-truncated", "{len} bytes");
        }
    }
}

#[test]
fn unknown_fields_are_refused() {
    assert_eq!(hello_json(&hello_with("join", NONCE, r#","debug":true"#)), "frame-malformed");
    let (error, _) = attack_command(|mut stream| async move {
        let node = fresh_node();
        drop(rig::receive(&mut stream, Slot::Hello).await);
        let identity = serde_json::to_string(&Identity::Tpm(node.identity())).unwrap();
        let json =
            format!(r#"{{"challenge":{{"nonce":"{NONCE}","demand":"none","identity":{identity},"skip_proof":true}}}}"#);
        send_json(&mut stream, &json).await;
        refusal(&mut stream).await
    });
    assert_eq!(error.code().as_str(), "frame-malformed");
}

#[test]
fn nonces_of_another_length_or_encoding_are_refused() {
    let upper = "AB".repeat(32);
    for nonce in [
        "",
        "07",
        &NONCE[2..],
        &format!("{NONCE}07"),
        &upper,
        &format!(" {}", &NONCE[1..]),
        &format!("0x{}", &NONCE[2..]),
        "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
    ] {
        assert_eq!(hello_json(&hello_with("join", nonce, "")), "frame-malformed", "{nonce}");
    }
    // Of 32 bytes in the one encoding, it is the purpose's turn to be wrong.
    assert_eq!(hello_json(&hello_with("verify", NONCE, "")), "purpose-refused");
}

#[test]
fn a_purpose_that_is_unknown_or_not_served_is_refused() {
    assert_eq!(hello_json(&hello_with("admin", NONCE, "")), "frame-malformed");
    assert_eq!(hello_json(&hello_with("JOIN", NONCE, "")), "frame-malformed");
    for purpose in ["init", "attach", "rejoin", "recover", "report", "verify", "enrol"] {
        assert_eq!(hello_json(&hello_with(purpose, NONCE, "")), "purpose-refused");
    }
}

#[test]
fn another_version_is_refused() {
    let json = hello_with("join", NONCE, "").replace(r#""version":1"#, r#""version":2"#);
    assert_eq!(hello_json(&json), "version-unsupported");
}

#[test]
fn messages_out_of_turn_are_refused() {
    let (error, _) = attack_service(|mut stream| async move {
        rig::send(&mut stream, &Message::Admitted(Box::new(Admitted { evidence: Evidence::None }))).await.unwrap();
        refusal(&mut stream).await
    });
    assert_eq!(error.code().as_str(), "message-out-of-turn");
}

/// The client speaks the application's protocol at once, as if it had been admitted.
#[test]
fn application_data_before_the_verdict_is_refused() {
    // What a gRPC client would say first.
    let (error, told) = attack_service(|mut stream| async move {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        refusal(&mut stream).await
    });
    assert_eq!(error.code().as_str(), "frame-too-long");
    assert_eq!(told, PeerReason::ProtocolViolation);
}

/// The client proves itself, and then talks without having looked at the server's evidence.
#[test]
fn application_data_in_place_of_the_clients_verdict_is_refused() {
    let node = fresh_node();
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let (near, far) = wire();
    let server = terms(PinnedKeyAttester::generate().unwrap(), of_node);
    let reception = move |_| Some(server.clone());
    let attacker = async {
        let mut stream = proven_but_for_the_verdict(near, &node).await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        refusal(&mut stream).await
    };
    let (service, told) = latchkey_test_support::block_on(zip(accept(far, &reception, TIME), attacker));
    assert_eq!(service.unwrap_err().code().as_str(), "frame-too-long");
    assert_eq!(told, PeerReason::ProtocolViolation);
}

/// The node is admitted, says nothing more, and leaves: there is no proven channel without both verdicts.
#[test]
fn a_skipped_verdict_is_no_verdict() {
    let node = fresh_node();
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let (near, far) = wire();
    let server = terms(PinnedKeyAttester::generate().unwrap(), of_node);
    let reception = move |_| Some(server.clone());
    let attacker = async { proven_but_for_the_verdict(near, &node).await.close().await.unwrap() };
    let (service, ()) = latchkey_test_support::block_on(zip(accept(far, &reception, TIME), attacker));
    assert_eq!(service.unwrap_err().code().as_str(), "frame-truncated");
}

/// An honest client up to the server's verdict.
async fn proven_but_for_the_verdict(near: UnixStream, node: &FakeTpm) -> TlsStream<UnixStream> {
    let mut stream = up_to_the_proof(near, node).await;
    let Ok(Message::Admitted(_)) = rig::receive(&mut stream, Slot::ServerVerdict).await else { panic!("refused") };
    stream
}

/// A client by hand: hello and proof.
async fn up_to_the_proof(near: UnixStream, node: &FakeTpm) -> TlsStream<UnixStream> {
    let (mut stream, session) = rig::unproven(&SharedKey::new(), near, Side::Client).await.unwrap();
    let nonce = Nonce::from_bytes([1; 32]);
    let hello = Hello {
        version: 1,
        purpose: Purpose::Join,
        nonce,
        identity: Identity::Tpm(node.identity()),
        accepts: Kinds::of(&[Kind::PinnedKey]),
    };
    rig::send(&mut stream, &Message::Hello(Box::new(hello))).await.unwrap();
    let Ok(Message::Challenge(challenge)) = rig::receive(&mut stream, Slot::Challenge).await else { panic!() };
    let Demand::Tpm(demanded) = &challenge.demand else { panic!() };
    let binding = independent_binding(&session, Purpose::Join, Side::Client, nonce, challenge.nonce);
    let evidence = Evidence::Tpm(Box::new(node.evidence(demanded, &binding).unwrap()));
    let demand = Demand::PinnedKey;
    let proof = Proof { evidence, demand };
    rig::send(&mut stream, &Message::Proof(Box::new(proof))).await.unwrap();
    stream
}

#[test]
fn a_silent_or_slow_peer_runs_into_the_deadline() {
    let (client, server) = join_terms();
    let short = Duration::from_millis(300);
    let reception = move |_| Some(server.clone());
    latchkey_test_support::block_on(async {
        // Says nothing at all.
        let (_held, far) = wire();
        let error = accept(far, &reception, short).await.unwrap_err();
        assert!(matches!(error, ChannelError::Deadline { step: Step::Tls, .. }), "{error}");
        let (near, _held) = wire();
        let error = connect(near, Purpose::Join, client.clone(), short).await.unwrap_err();
        assert!(matches!(error, ChannelError::Deadline { step: Step::Tls, .. }), "{error}");

        // Does TLS, then sends one byte of its hello every now and then.
        let (near, far) = wire();
        let key = SharedKey::new();
        let dripping = async {
            let (mut stream, _) = rig::unproven(&key, near, Side::Client).await.unwrap();
            let whole = [&1000_u32.to_be_bytes()[..], &[b' '; 1000]].concat();
            for byte in whole {
                if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                    break;
                }
                smol::Timer::after(Duration::from_millis(20)).await;
            }
        };
        // Enough for TLS on a busy machine, and not for a thousand drops.
        let enough_for_tls = Duration::from_secs(3);
        let (service, ()) = zip(accept(far, &reception, enough_for_tls), dripping).await;
        let error = service.unwrap_err();
        assert!(matches!(error, ChannelError::Deadline { step: Step::Greeting, .. }), "{error}");
        assert_eq!(error.code().as_str(), "handshake-deadline");
    });
}

/// Small records blow up a legal frame: the raw bytes are counted too.
#[test]
fn a_flood_of_empty_or_tiny_records_is_cut_off() {
    let (error, ()) = attack_service(|mut stream| async move {
        let header = u32::try_from(Slot::Hello.limit()).unwrap().to_be_bytes();
        if stream.write_all(&header).await.is_err() {
            return;
        }
        // One byte per record is 23 bytes on the wire; 38 KiB of them are beyond what a handshake can need.
        for _ in 0..Slot::Hello.limit() - 1 {
            if stream.write_all(b" ").await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    });
    assert_eq!(error.code().as_str(), "handshake-too-long");
}

#[test]
fn a_server_without_evidence_is_refused_where_evidence_is_due() {
    let (error, told) = attack_command(|mut stream| async move {
        drop(rig::receive(&mut stream, Slot::Hello).await);
        let json = format!(r#"{{"challenge":{{"nonce":"{NONCE}","demand":"none","identity":"none"}}}}"#);
        send_json(&mut stream, &json).await;
        refusal(&mut stream).await
    });
    assert_eq!(error.code().as_str(), "evidence-kind-refused");
    assert_eq!(told, PeerReason::EvidenceKindRefused);
}

#[test]
fn a_server_that_claims_a_tpm_and_shows_nothing_is_refused() {
    let node = fresh_node();
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let (near, far) = wire();
    let key = SharedKey::new();
    let attacker = async {
        let (mut stream, _) = rig::unproven(&key, far, Side::Server).await.unwrap();
        drop(rig::receive(&mut stream, Slot::Hello).await);
        let identity = serde_json::to_string(&Identity::Tpm(node.identity())).unwrap();
        let json = format!(r#"{{"challenge":{{"nonce":"{NONCE}","demand":"none","identity":{identity}}}}}"#);
        send_json(&mut stream, &json).await;
        let Ok(Message::Proof(_)) = rig::receive(&mut stream, Slot::Proof).await else { panic!("no proof") };
        rig::send(&mut stream, &Message::Admitted(Box::new(Admitted { evidence: Evidence::None }))).await.unwrap();
        refusal(&mut stream).await
    };
    let (command, told) =
        latchkey_test_support::block_on(zip(connect(near, Purpose::Init, terms(NoProof, of_node), TIME), attacker));
    let error = command.unwrap_err();
    assert_eq!(error.code().as_str(), "evidence-kind-changed");
    assert_eq!(told, PeerReason::ProtocolViolation);
}

/// The command would take a pinned key elsewhere, and the attacker has one that is pinned; but a node proves itself by
/// its TPM, says the purpose table, whatever the command is set up to accept.
#[test]
fn a_pinned_key_does_not_stand_for_a_node() {
    let (node, key) = (fresh_node(), PinnedKeyAttester::generate().unwrap());
    let either = VerifierSet(vec![
        Arc::new(PinnedKeyVerifier::new([key.hash()])),
        Arc::new(demand(&[&node], LockExpectation::Unlocked)),
    ]);
    let (near, far) = wire();
    let shared = SharedKey::new();
    let attacker = async {
        let (mut stream, _) = rig::unproven(&shared, far, Side::Server).await.unwrap();
        let Ok(Message::Hello(hello)) = rig::receive(&mut stream, Slot::Hello).await else { panic!("no hello") };
        assert_eq!(hello.accepts, Kinds::of(&[Kind::Tpm]));
        let identity = key.identity(Kind::PinnedKey).unwrap();
        let challenge = Challenge { nonce: Nonce::from_bytes([7; 32]), demand: Demand::None, identity };
        rig::send(&mut stream, &Message::Challenge(Box::new(challenge))).await.unwrap();
        refusal(&mut stream).await
    };
    let (command, told) =
        latchkey_test_support::block_on(zip(connect(near, Purpose::Init, terms(NoProof, either), TIME), attacker));
    assert_eq!(command.unwrap_err().code().as_str(), "evidence-kind-refused");
    assert_eq!(told, PeerReason::EvidenceKindRefused);
}

/// A client without a TPM asks for a ticket.
#[test]
fn a_client_without_evidence_is_refused_where_evidence_is_due() {
    let (error, told) = attack_service(|mut stream| async move {
        let hello = Hello {
            version: 1,
            purpose: Purpose::Join,
            nonce: Nonce::from_bytes([7; 32]),
            identity: Identity::None,
            accepts: Kinds::of(&[Kind::PinnedKey]),
        };
        rig::send(&mut stream, &Message::Hello(Box::new(hello))).await.unwrap();
        refusal(&mut stream).await
    });
    assert_eq!(error.code().as_str(), "evidence-kind-refused");
    assert_eq!(told, PeerReason::EvidenceKindRefused);
}

/// What the service knows about a refusal stays with the service.
#[test]
fn a_refused_peer_learns_no_values() {
    let impostor = FakeTpm::new([(11, [0xee; 32])]);
    let of_node = demand(&[&impostor], LockExpectation::Unlocked);
    let (near, far) = wire();
    let server = terms(PinnedKeyAttester::generate().unwrap(), of_node);
    let reception = move |_| Some(server.clone());
    let attacker = async {
        let mut stream = up_to_the_proof(near, &impostor).await;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        rest
    };
    let (service, told) = latchkey_test_support::block_on(zip(accept(far, &reception, TIME), attacker));
    let error = service.unwrap_err();
    assert_eq!(error.code().as_str(), "image-differs");
    let difference = error.refusal().unwrap().difference().unwrap();
    assert_eq!((difference.pcr, difference.got.as_str()), (11, "ee".repeat(32).as_str()));
    assert_eq!(&told[4..], br#"{"refused":{"code":"measurements-refused"}}"#);
}

#[test]
fn a_frame_fault_says_what_was_expected_and_what_came() {
    let error = frame::announced_len([0, 0, 0xa0, 0], Slot::Hello).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { limit: 38_912, got: 40_960 }));
    assert_eq!(error.to_string(), "expected at most 38912 bytes, 40960 were announced");
}

/// The largest identity that is one fits the frame: six certificates, two public areas.
#[test]
fn the_largest_identity_fits_its_frame() {
    let (public, certificate) = (vec![0xff; 1024], vec![0xff; 4096]);
    let chain = vec![certificate.clone(); 4];
    let identity = AttesterIdentity::new(public.clone(), Some(certificate.clone()), chain, public).unwrap();
    let identity = identity.with_ak_certificate(certificate).unwrap();
    // Purpose, kinds, nonce and names of fields.
    let rest = 1024;
    assert!(serde_json::to_vec(&Identity::Tpm(identity)).unwrap().len() + rest <= Slot::Hello.limit());
}
