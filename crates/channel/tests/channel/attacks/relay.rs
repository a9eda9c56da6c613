//! Somebody in the middle: evidence is genuine, but of another session, side, purpose or time.
//!
//! The middle has a TLS session of its own to each end and passes every message on (CVE-2026-33697 and its kin). It
//! reads and writes all messages, so TLS protects nothing here; the binding must.

use latchkey_attestation::LockExpectation;
use latchkey_channel::frame::Slot;
use latchkey_channel::message::{Demand, Evidence, Hello, Identity, Message, Proof};
use latchkey_channel::rig::{self, SharedKey};
use latchkey_channel::tls::{Session, TlsStream};
use latchkey_channel::{
    ChannelError, Kind, Kinds, NoProof, PeerReason, PinnedKeyAttester, PinnedKeyVerifier, Purpose, Side, Terms, accept,
    connect,
};
use smol::future::zip;
use smol::net::unix::UnixStream;

use crate::support::world::{
    CLUSTER, TIME, demand, fresh_node, independent_binding, init_terms, join_terms, locked_node, meet, terms, wire,
};

/// The middle's two ends.
struct Middle {
    to_client: TlsStream<UnixStream>,
    to_server: TlsStream<UnixStream>,
}

impl Middle {
    /// Plays server towards one, with `key` client towards the other.
    async fn between(client: UnixStream, server: UnixStream, key: &SharedKey) -> Self {
        let own = SharedKey::new();
        let (to_client, to_server) =
            zip(rig::unproven(&own, client, Side::Server), rig::unproven(key, server, Side::Client)).await;
        Self { to_client: to_client.unwrap().0, to_server: to_server.unwrap().0 }
    }

    async fn pass_up(&mut self, slot: Slot) -> Option<Message> {
        let message = rig::receive(&mut self.to_client, slot).await.ok()?;
        rig::send(&mut self.to_server, &message).await.ok()?;
        Some(message)
    }

    async fn pass_down(&mut self, slot: Slot) -> Option<Message> {
        let message = rig::receive(&mut self.to_server, slot).await.ok()?;
        rig::send(&mut self.to_client, &message).await.ok()?;
        Some(message)
    }

    /// Passes the whole handshake on, as far as it goes.
    async fn relay(mut self) -> Option<()> {
        self.pass_up(Slot::Hello).await?;
        self.pass_down(Slot::Challenge).await?;
        self.pass_up(Slot::Proof).await?;
        self.pass_down(Slot::ServerVerdict).await?;
        self.pass_up(Slot::ClientVerdict).await.map(drop)
    }
}

fn relayed(purpose: Purpose, client: Terms, server: Terms) -> (ChannelError, ChannelError) {
    let ((client_end, middle_up), (middle_down, server_end)) = (wire(), wire());
    let reception = move |_| Some(server.clone());
    let key = SharedKey::new();
    let middle = async { Middle::between(middle_up, middle_down, &key).await.relay().await };
    let ends = zip(connect(client_end, purpose, client, TIME), accept(server_end, &reception, TIME));
    let ((client, server), _) = latchkey_test_support::block_on(zip(ends, middle));
    (client.unwrap_err(), server.unwrap_err())
}

#[test]
fn relayed_evidence_of_a_node_is_refused_by_the_service() {
    let (client, server) = join_terms();
    let (node, service) = relayed(Purpose::Join, client, server);
    assert_eq!(service.code().as_str(), "quote-binding-mismatch");
    assert!(matches!(node, ChannelError::PeerRefused(PeerReason::EvidenceRejected)), "{node}");
}

#[test]
fn relayed_evidence_of_a_node_is_refused_by_the_command() {
    let (client, server) = init_terms();
    let (command, node) = relayed(Purpose::Init, client, server);
    assert_eq!(command.code().as_str(), "quote-binding-mismatch");
    assert!(matches!(node, ChannelError::PeerRefused(PeerReason::EvidenceRejected)), "{node}");
}

/// The middle is let through by the service, because it has a machine of its own that the policy admits. The node must
/// still find out that the signature with the pinned key is for another session.
#[test]
fn relayed_signature_of_a_pinned_key_is_refused_by_the_node() {
    let (node, insider, service) = (fresh_node(), fresh_node(), PinnedKeyAttester::generate().unwrap());
    let pin = PinnedKeyVerifier::new([service.hash()]);
    let of_node = demand(&[&node, &insider], LockExpectation::Unlocked);
    let ((node_end, middle_up), (middle_down, service_end)) = (wire(), wire());
    let (client, server) = (terms(node, pin), terms(service, of_node));
    let reception = move |_| Some(server.clone());

    let key = SharedKey::new();
    let middle = async {
        let own = SharedKey::new();
        let (up, down) =
            zip(rig::unproven(&own, middle_up, Side::Server), rig::unproven(&key, middle_down, Side::Client)).await;
        let ((mut up, _), (mut down, session)) = (up.unwrap(), down.unwrap());

        // Towards the service with the insider's TPM; towards the node with the service's own words.
        let Ok(Message::Hello(hello)) = rig::receive(&mut up, Slot::Hello).await else { panic!("no hello") };
        let identity = Identity::Tpm(insider.identity());
        let hello = Hello { identity, nonce: hello.nonce, accepts: hello.accepts, ..*hello };
        let client_nonce = hello.nonce;
        rig::send(&mut down, &Message::Hello(Box::new(hello))).await.unwrap();
        let challenge = rig::receive(&mut down, Slot::Challenge).await.unwrap();
        let Message::Challenge(ref inner) = challenge else { panic!("no challenge") };
        let Demand::Tpm(for_insider) = inner.demand.clone() else { panic!("no TPM demanded") };
        let binding = independent_binding(&session, Purpose::Join, Side::Client, client_nonce, inner.nonce);
        let evidence = Evidence::Tpm(Box::new(insider.evidence(&for_insider, &binding).unwrap()));
        rig::send(&mut up, &challenge).await.unwrap();
        let Ok(Message::Proof(_)) = rig::receive(&mut up, Slot::Proof).await else { panic!("no proof") };
        let proof = Message::Proof(Box::new(Proof { evidence, demand: Demand::PinnedKey }));
        rig::send(&mut down, &proof).await.unwrap();
        let admitted = rig::receive(&mut down, Slot::ServerVerdict).await.unwrap();
        assert!(matches!(admitted, Message::Admitted(_)), "the insider is admitted: {admitted:?}");
        rig::send(&mut up, &admitted).await.unwrap();
        drop(rig::receive(&mut up, Slot::ClientVerdict).await);
    };
    let node = connect(node_end, Purpose::Join, client, TIME);
    let (node, _) = latchkey_test_support::block_on(zip(node, zip(accept(service_end, &reception, TIME), middle)));
    assert_eq!(node.unwrap_err().code().as_str(), "key-signature-invalid");
}

/// The middle has the private TLS keys of both ends and shows each end the other's key. Only the exporter tells the two sessions
/// apart.
#[test]
fn relay_with_the_stolen_tls_key_of_the_node_is_refused() {
    let (client, server) = join_terms();
    let ((client_end, middle_up), (middle_down, server_end)) = (wire(), wire());
    let reception = move |_| Some(server.clone());
    let (of_node, of_service) = (SharedKey::new(), SharedKey::new());
    let middle = async {
        let towards_node = rig::unproven(&of_service, middle_up, Side::Server);
        let towards_service = rig::unproven(&of_node, middle_down, Side::Client);
        let (up, down) = zip(towards_node, towards_service).await;
        let ((to_client, with_node), (to_server, with_service)) = (up.unwrap(), down.unwrap());
        let keys = |session: &Session| (session.client_key, session.server_key);
        assert_eq!(keys(&with_node), keys(&with_service), "no key differs");
        assert_ne!(with_node.exporter, with_service.exporter);
        Middle { to_client, to_server }.relay().await
    };
    let node = async {
        let (stream, session) = rig::unproven(&of_node, client_end, Side::Client).await.unwrap();
        rig::prove_as_client(stream, session, Purpose::Join, client).await
    };
    let service = async {
        let (stream, session) = rig::unproven(&of_service, server_end, Side::Server).await.unwrap();
        rig::prove_as_server(stream, session, &reception).await
    };
    let ((node, service), _) = latchkey_test_support::block_on(zip(zip(node, service), middle));
    assert_eq!(service.unwrap_err().code().as_str(), "quote-binding-mismatch");
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::EvidenceRejected)));
}

/// A key that is stolen from a process is of no use on its next connection.
#[test]
fn no_two_connections_show_the_same_tls_key() {
    let shown = |side: Side| {
        let (client, server) = join_terms();
        let (near, far) = wire();
        let reception = move |_| Some(server.clone());
        let key = SharedKey::new();
        latchkey_test_support::block_on(async {
            // The peer says nothing more, and the honest end fails: the key was shown by then.
            match side {
                Side::Client => {
                    let honest = connect(near, Purpose::Join, client, TIME);
                    let (_, peer) =
                        zip(honest, async { rig::unproven(&key, far, Side::Server).await.unwrap().1 }).await;
                    peer.client_key
                }
                Side::Server => {
                    let honest = accept(far, &reception, TIME);
                    let (_, peer) =
                        zip(Box::pin(honest), async { rig::unproven(&key, near, Side::Client).await.unwrap().1 }).await;
                    peer.server_key
                }
            }
        })
    };
    for side in [Side::Client, Side::Server] {
        let keys: std::collections::BTreeSet<_> = (0..8).map(|_| shown(side)).collect();
        assert_eq!(keys.len(), 8, "{side:?}");
    }
}

/// The attacker claims to be the very node it talks to, and lets that node answer its own challenge on a second
/// connection, where the node proves itself to anybody.
#[test]
fn reflected_evidence_is_refused_by_its_maker() {
    let victim = std::sync::Arc::new(locked_node(CLUSTER));
    let of_nodes = demand(&[&victim], LockExpectation::LockedTo(CLUSTER));
    let attester = latchkey_channel::AttesterSet(vec![victim.clone()]);
    let reception = move |purpose| match purpose {
        Purpose::Report => Some(terms(attester.clone(), of_nodes.clone())),
        Purpose::Verify => Some(terms(attester.clone(), NoProof)),
        _ => None,
    };
    let ((near, far), (near_too, far_too)) = (wire(), wire());
    let key = SharedKey::new();
    let attacker = async {
        let (mut target, _) = rig::unproven(&key, near, Side::Client).await.unwrap();
        let (mut oracle, _) = rig::unproven(&key, near_too, Side::Client).await.unwrap();
        let hello = |purpose, identity| {
            let nonce = latchkey_channel::Nonce::from_bytes([7; 32]);
            Message::Hello(Box::new(Hello { version: 1, purpose, nonce, identity, accepts: Kinds::of(&[Kind::Tpm]) }))
        };
        rig::send(&mut target, &hello(Purpose::Report, Identity::Tpm(victim.identity()))).await.unwrap();
        let Ok(Message::Challenge(challenge)) = rig::receive(&mut target, Slot::Challenge).await else { panic!() };

        rig::send(&mut oracle, &hello(Purpose::Verify, Identity::None)).await.unwrap();
        let Ok(Message::Challenge(_)) = rig::receive(&mut oracle, Slot::Challenge).await else { panic!() };
        let proof = Proof { evidence: Evidence::None, demand: challenge.demand.clone() };
        rig::send(&mut oracle, &Message::Proof(Box::new(proof))).await.unwrap();
        let Ok(Message::Admitted(admitted)) = rig::receive(&mut oracle, Slot::ServerVerdict).await else { panic!() };
        assert_eq!(admitted.evidence.kind(), Kind::Tpm, "the oracle answered the target's credential");

        let proof = Proof { evidence: admitted.evidence, demand: challenge.demand };
        rig::send(&mut target, &Message::Proof(Box::new(proof))).await.unwrap();
        let Ok(Message::Refused(body)) = rig::receive(&mut target, Slot::ServerVerdict).await else { panic!() };
        assert_eq!(body.code, PeerReason::EvidenceRejected);
    };
    let targets = zip(accept(far, &reception, TIME), accept(far_too, &reception, TIME));
    let ((target, _), ()) = latchkey_test_support::block_on(zip(targets, attacker));
    assert_eq!(target.unwrap_err().code().as_str(), "quote-binding-mismatch");
}

/// What a node once proved is sent again on a new connection.
#[test]
fn replayed_proof_is_refused() {
    let (client, server) = join_terms();
    let ((client_end, middle_up), (middle_down, server_end)) = (wire(), wire());
    let (recorded, replayed) = wire();
    let reception = move |_| Some(server.clone());
    let key = SharedKey::new();
    let attacker = async {
        let mut middle = Middle::between(middle_up, middle_down, &key).await;
        let hello = middle.pass_up(Slot::Hello).await.unwrap();
        middle.pass_down(Slot::Challenge).await.unwrap();
        let proof = middle.pass_up(Slot::Proof).await.unwrap();
        drop(middle);

        let (mut again, _) = rig::unproven(&key, recorded, Side::Client).await.unwrap();
        rig::send(&mut again, &hello).await.unwrap();
        assert!(matches!(rig::receive(&mut again, Slot::Challenge).await, Ok(Message::Challenge(_))));
        rig::send(&mut again, &proof).await.unwrap();
        let Ok(Message::Refused(body)) = rig::receive(&mut again, Slot::ServerVerdict).await else { panic!() };
        assert_eq!(body.code, PeerReason::TpmNotTrusted);
    };
    let node = connect(client_end, Purpose::Join, client, TIME);
    let services = zip(accept(server_end, &reception, TIME), accept(replayed, &reception, TIME));
    let ((_, (_, service)), ()) = latchkey_test_support::block_on(zip(zip(node, services), attacker));
    assert_eq!(service.unwrap_err().code().as_str(), "activation-failed");
}

/// A server repeats an old nonce and an old challenge, hoping for the old evidence: the client's own nonce is new.
#[test]
fn an_old_nonce_gets_no_old_evidence() {
    let node = std::sync::Arc::new(fresh_node());
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let service = PinnedKeyAttester::generate().unwrap();
    let client = terms(latchkey_channel::AttesterSet(vec![node]), PinnedKeyVerifier::new([service.hash()]));
    let server = terms(service, of_node);
    let mut seen = std::collections::HashSet::new();
    let mut repeated: Option<Message> = None;
    for _ in 0..2 {
        let ((client_end, middle_up), (middle_down, server_end)) = (wire(), wire());
        let (server, key) = (server.clone(), SharedKey::new());
        let reception = move |_| Some(server.clone());
        let attacker = async {
            let mut middle = Middle::between(middle_up, middle_down, &key).await;
            middle.pass_up(Slot::Hello).await.unwrap();
            let fresh = rig::receive(&mut middle.to_server, Slot::Challenge).await.unwrap();
            let challenge = repeated.take().unwrap_or(fresh);
            rig::send(&mut middle.to_client, &challenge).await.unwrap();
            let Ok(Message::Proof(proof)) = rig::receive(&mut middle.to_client, Slot::Proof).await else { panic!() };
            let Evidence::Tpm(evidence) = proof.evidence else { panic!("no TPM evidence") };
            let quote = latchkey_tpm::wire::Attest::parse(evidence.quote()).unwrap();
            (challenge, quote.extra_data)
        };
        let ends = zip(connect(client_end, Purpose::Join, client.clone(), TIME), accept(server_end, &reception, TIME));
        let (_, (challenge, binding)) = latchkey_test_support::block_on(zip(ends, attacker));
        repeated = Some(challenge);
        assert!(seen.insert(binding), "two connections, one binding");
    }
}

/// A genuine node of the same make, but of another cluster, is in the way of the one that is meant.
#[test]
fn a_diverted_connection_ends_at_another_cluster_and_is_refused() {
    let elsewhere = locked_node([0xc2; 32]);
    let of_service = demand(&[&elsewhere], LockExpectation::LockedTo(CLUSTER));
    let node = fresh_node();
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let (node, service) = meet(Purpose::Rejoin, terms(node, of_service), terms(elsewhere, of_node));
    assert_eq!(node.unwrap_err().code().as_str(), "locked-to-another-cluster");
    assert!(matches!(service.unwrap_err(), ChannelError::PeerRefused(PeerReason::LockRefused)));
}

/// The middle turns a rejoin into a join: the node's evidence says what it was made for.
#[test]
fn evidence_diverted_to_another_purpose_is_refused() {
    let (client, server) = join_terms();
    let ((client_end, middle_up), (middle_down, server_end)) = (wire(), wire());
    let reception = move |_| Some(server.clone());
    let key = SharedKey::new();
    let attacker = async {
        let mut middle = Middle::between(middle_up, middle_down, &key).await;
        let Ok(Message::Hello(hello)) = rig::receive(&mut middle.to_client, Slot::Hello).await else { panic!() };
        let hello = Hello { purpose: Purpose::Join, ..*hello };
        rig::send(&mut middle.to_server, &Message::Hello(Box::new(hello))).await.unwrap();
        middle.pass_down(Slot::Challenge).await;
        middle.pass_up(Slot::Proof).await;
        middle.pass_down(Slot::ServerVerdict).await;
    };
    let ends = zip(connect(client_end, Purpose::Rejoin, client, TIME), accept(server_end, &reception, TIME));
    let ((_, service), ()) = latchkey_test_support::block_on(zip(ends, attacker));
    assert_eq!(service.unwrap_err().code().as_str(), "quote-binding-mismatch");
}
