//! The pure handshake machines under random peers: they never panic, and nobody gets through who should not.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use latchkey_attestation::LockExpectation;
use latchkey_channel::frame::{self, Slot};
use latchkey_channel::handshake::{AwaitHello, Concluded, Start};
use latchkey_channel::message::{Admitted, Demand, Evidence, Hello, Identity, Message, VERSION};
use latchkey_channel::tls::Session;
use latchkey_channel::{
    Attester, AttesterSet, ChannelError, Kind, Nonce, PeerReason, PinnedKeyAttester, PinnedKeyVerifier, Purpose,
    SpkiHash, Terms,
};
use proptest::prelude::*;

use crate::support::world::{CLUSTER, demand, fresh_node, locked_node, terms};

const NOW: u64 = 1_800_000_000;

fn session(seed: u8) -> Session {
    Session { exporter: [seed; 32], client_key: SpkiHash([1; 32]), server_key: SpkiHash([2; 32]) }
}

/// One cluster, made once: TPM keys take a while.
struct World {
    node: Arc<dyn Attester>,
    other_node: Arc<dyn Attester>,
    client: Terms,
    server: Terms,
}

fn world() -> &'static World {
    static WORLD: std::sync::LazyLock<World> = std::sync::LazyLock::new(|| {
        let (node, other, service) = (fresh_node(), fresh_node(), locked_node(CLUSTER));
        let of_node = demand(&[&node, &other], LockExpectation::Unlocked);
        let of_service = demand(&[&service], LockExpectation::LockedTo(CLUSTER));
        let (node, other): (Arc<dyn Attester>, Arc<dyn Attester>) = (Arc::new(node), Arc::new(other));
        World {
            client: terms(AttesterSet(vec![node.clone()]), of_service),
            server: terms(service, of_node),
            node,
            other_node: other,
        }
    });
    &WORLD
}

/// What somebody between two machines does to one message.
#[derive(Clone, Debug)]
enum Meddling {
    /// Nothing.
    Pass,
    /// Changes one byte of the JSON; what is still a message is passed on.
    Flip { at: usize, to: u8 },
    /// Sends the message of this place of another, genuine session.
    Swap,
    /// Sends something else that is a message.
    Replace(u8),
}

fn meddling() -> impl Strategy<Value = Meddling> {
    prop_oneof![
        2 => Just(Meddling::Pass),
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, to)| Meddling::Flip { at: at.index(4096), to }),
        1 => Just(Meddling::Swap),
        1 => any::<u8>().prop_map(Meddling::Replace),
    ]
}

/// Passes a message through the wire format and the meddler.
fn meddle(message: &Message, how: &Meddling, foreign: Option<&[u8]>) -> Option<Message> {
    let genuine = frame::encode(message).unwrap().split_off(4);
    let sent = match how {
        Meddling::Pass => genuine.clone(),
        Meddling::Flip { at, to } => {
            let mut bytes = genuine.clone();
            let at = at % bytes.len();
            bytes[at] = *to;
            bytes
        }
        Meddling::Swap => foreign.map_or_else(|| genuine.clone(), <[u8]>::to_vec),
        Meddling::Replace(kind) => {
            let other = match kind % 3 {
                0 => Message::Admitted(Box::new(Admitted { evidence: Evidence::None })),
                1 => Message::Hello(Box::new(Hello {
                    version: VERSION,
                    purpose: Purpose::Init,
                    nonce: Nonce::from_bytes([*kind; 32]),
                    identity: Identity::None,
                    accepts: latchkey_channel::Kinds::of(&[Kind::Tpm]),
                })),
                _ => frame::decode(br#"{"refused":{"code":"purpose-refused"}}"#).unwrap(),
            };
            frame::encode(&other).unwrap().split_off(4)
        }
    };
    frame::decode(&sent).ok()
}

/// What each side made of a run, and all messages as they were meant.
struct Run {
    client: Option<Result<Concluded, ChannelError>>,
    server: Option<Result<Concluded, ChannelError>>,
    said: Vec<Vec<u8>>,
}

/// Client and server with these sessions (equal unless somebody is in the middle) and a meddler between.
fn run(sessions: (Session, Session), nonces: (u8, u8), how: &[Meddling; 5], foreign: &[Vec<u8>]) -> Run {
    let mut run = Run { client: None, server: None, said: Vec::new() };
    drive(&mut run, sessions, nonces, how, foreign);
    run
}

fn drive(
    run: &mut Run,
    sessions: (Session, Session),
    nonces: (u8, u8),
    how: &[Meddling; 5],
    foreign: &[Vec<u8>],
) -> Option<()> {
    let world = world();
    let wire = |message: &Message, run: &mut Run| {
        let place = run.said.len();
        run.said.push(frame::encode(message).unwrap().split_off(4));
        meddle(message, &how[place], foreign.get(place).map(Vec::as_slice))
    };
    let start = Start::new(sessions.0, Purpose::Join, world.client.clone()).unwrap();
    let identity = world.node.identity(start.shows()).unwrap();
    let (hello, client) = start.hello(identity, Nonce::from_bytes([nonces.0; 32])).unwrap();

    let hello = wire(&hello, run)?;
    let greeted =
        match AwaitHello::new(sessions.1).heard(hello).and_then(|heard| heard.greeted(world.server.clone(), NOW)) {
            Ok(greeted) => greeted,
            Err(error) => return note(&mut run.server, error),
        };
    let identity = world.server.attester.identity(greeted.shows()).unwrap();
    let (challenge, server) = greeted.challenge(identity, Nonce::from_bytes([nonces.1; 32])).unwrap();

    let challenge = wire(&challenge, run)?;
    let challenged = match client.challenged(challenge, NOW) {
        Ok(challenged) => challenged,
        Err(error) => return note(&mut run.client, error),
    };
    let evidence = world.node.prove(challenged.request()).ok()?;
    let (proof, client) = challenged.proof(evidence).unwrap();

    let proof = wire(&proof, run)?;
    let appraised = match server.shown(proof).and_then(|shown| shown.appraised(NOW)) {
        Ok(appraised) => appraised,
        Err(error) => return note(&mut run.server, error),
    };
    let evidence = world.server.attester.prove(appraised.request()).ok()?;
    let (admitted, server) = appraised.admit(evidence).unwrap();

    let admitted = wire(&admitted, run)?;
    let (verdict, concluded) = match client.concluded(admitted, NOW) {
        Ok(done) => done,
        Err(error) => return note(&mut run.client, error),
    };
    run.client = Some(Ok(concluded));
    let verdict = wire(&verdict, run)?;
    run.server = Some(server.concluded(&verdict));
    Some(())
}

fn note(side: &mut Option<Result<Concluded, ChannelError>>, error: ChannelError) -> Option<()> {
    *side = Some(Err(error));
    None
}

const PASS: [Meddling; 5] = [Meddling::Pass, Meddling::Pass, Meddling::Pass, Meddling::Pass, Meddling::Pass];

#[test]
fn undisturbed_machines_conclude() {
    let run = run((session(7), session(7)), (1, 2), &PASS, &[]);
    assert!(run.client.unwrap().unwrap().peer().admission().unwrap().locked());
    assert!(!run.server.unwrap().unwrap().peer().admission().unwrap().locked());
}

#[test]
fn machines_with_somebody_in_the_middle_do_not_conclude() {
    let run = run((session(7), session(8)), (1, 2), &PASS, &[]);
    assert_eq!(run.server.unwrap().unwrap_err().code().as_str(), "quote-binding-mismatch");
    assert!(run.client.is_none());
}

#[test]
fn a_refusal_at_any_place_ends_the_handshake() {
    for place in 1..5 {
        let mut how = PASS;
        how[place] = Meddling::Replace(2);
        let run = run((session(7), session(7)), (1, 2), &how, &[]);
        let errors = [run.client, run.server].into_iter().flatten().filter_map(Result::err).collect::<Vec<_>>();
        assert!(
            matches!(errors.as_slice(), [ChannelError::PeerRefused(PeerReason::PurposeRefused)]),
            "{place}: {errors:?}"
        );
    }
}

/// A node that is admitted by the service's policy must not help another one in.
#[test]
fn the_proof_of_one_node_is_no_proof_for_another() {
    let world = world();
    let start = Start::new(session(7), Purpose::Join, world.client.clone()).unwrap();
    let (hello, _) = start.hello(world.node.identity(Kind::Tpm).unwrap(), Nonce::from_bytes([1; 32])).unwrap();
    let greeted = AwaitHello::new(session(7)).heard(hello).unwrap().greeted(world.server.clone(), NOW).unwrap();
    let identity = world.server.attester.identity(Kind::Tpm).unwrap();
    let (challenge, server) = greeted.challenge(identity, Nonce::from_bytes([2; 32])).unwrap();

    // The other node answers, with its own keys and its own, honest handshake.
    let other = Terms { attester: world.other_node.clone(), ..world.client.clone() };
    let start = Start::new(session(7), Purpose::Join, other).unwrap();
    let (_, client) = start.hello(world.other_node.identity(Kind::Tpm).unwrap(), Nonce::from_bytes([1; 32])).unwrap();
    let challenged = client.challenged(challenge, NOW).unwrap();
    let evidence = world.other_node.prove(challenged.request()).expect("some secret comes out");
    let (proof, _) = challenged.proof(evidence).unwrap();
    assert_eq!(
        server.shown(proof).and_then(|shown| shown.appraised(NOW)).unwrap_err().code().as_str(),
        "activation-failed"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// TLS keeps meddlers out. If it did not, whoever reaches the end would still have the evidence of the machine that
    /// was meant, over the session, purpose and nonces that were meant.
    #[test]
    fn a_meddler_changes_no_conclusion(how in [meddling(), meddling(), meddling(), meddling(), meddling()]) {
        let foreign = run((session(9), session(9)), (3, 4), &PASS, &[]).said;
        let undisturbed = run((session(7), session(7)), (1, 2), &PASS, &[]);
        let run = run((session(7), session(7)), (1, 2), &how, &foreign);
        for (disturbed, meant) in [(run.client, undisturbed.client), (run.server, undisturbed.server)] {
            let (Some(Ok(disturbed)), Some(Ok(meant))) = (disturbed, meant) else { continue };
            prop_assert_eq!(disturbed.bindings(), meant.bindings());
            prop_assert_eq!(disturbed.purpose(), Purpose::Join);
            prop_assert_eq!(disturbed.peer().admission(), meant.peer().admission());
        }
    }

    /// With another session at each end, nothing that anybody sends gets the client past the server.
    #[test]
    fn nobody_in_the_middle_gets_through(
        how in [meddling(), meddling(), meddling(), meddling(), meddling()],
        exporters in any::<(u8, u8)>().prop_filter("two sessions", |(one, two)| one != two),
    ) {
        let foreign = run((session(exporters.1), session(exporters.1)), (1, 2), &PASS, &[]).said;
        let run = run((session(exporters.0), session(exporters.1)), (1, 5), &how, &foreign);
        prop_assert!(!matches!(run.client, Some(Ok(_))));
        prop_assert!(!matches!(run.server, Some(Ok(_))));
    }

    #[test]
    fn random_bytes_are_no_message(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(frame::decode(&bytes).is_err());
    }

    #[test]
    fn random_lengths_are_bounded(header in any::<[u8; 4]>()) {
        for slot in [Slot::Hello, Slot::Challenge, Slot::Proof, Slot::ServerVerdict, Slot::ClientVerdict] {
            if let Ok(len) = frame::announced_len(header, slot) {
                prop_assert!(len <= slot.limit());
            }
        }
    }

    /// Messages of the right schema with anything inside: each state refuses them, and none panics.
    #[test]
    fn random_messages_conclude_nothing(message in random_message(), pinned in any::<bool>()) {
        let world = world();
        let pin = PinnedKeyAttester::generate().unwrap();
        let client = if pinned {
            Terms { verifier: Arc::new(PinnedKeyVerifier::new([pin.hash()])), ..world.client.clone() }
        } else {
            world.client.clone()
        };
        let start = Start::new(session(7), Purpose::Join, client).unwrap();
        let (_, client) = start.hello(world.node.identity(Kind::Tpm).unwrap(), Nonce::from_bytes([1; 32])).unwrap();
        let again = frame::decode(&frame::encode(&message).unwrap()[4..]).unwrap();
        prop_assert!(client.challenged(message, NOW).is_err());
            prop_assert!(AwaitHello::new(session(7)).heard(again).and_then(|heard| heard.greeted(world.server.clone(), NOW)).is_err());
    }
}

/// JSON that decodes, with identities and evidence of random bytes.
fn random_message() -> impl Strategy<Value = Message> {
    let base64 = prop::collection::vec(prop::sample::select(b"ABCDEFabcdef0123".to_vec()), 0..64)
        .prop_map(|bytes| String::from_utf8(bytes[..bytes.len() / 4 * 4].to_vec()).unwrap());
    let nonce = any::<[u8; 32]>().prop_map(|bytes| serde_json::to_string(&Nonce::from_bytes(bytes)).unwrap());
    let identity = prop_oneof![
        Just("\"none\"".to_owned()),
        base64.clone().prop_map(|spki| format!(r#"{{"pinned-key":{{"spki":"{spki}"}}}}"#)),
        (base64.clone(), base64.clone())
            .prop_map(|(ek, ak)| format!(r#"{{"tpm":{{"ek_public":"{ek}","ak_public":"{ak}"}}}}"#)),
    ];
    let demanded = prop_oneof![
        Just("\"none\"".to_owned()),
        Just("\"pinned-key\"".to_owned()),
        base64.prop_map(|credential| format!(r#"{{"tpm":{{"credential":"{credential}","pcrs":[4,11,15]}}}}"#)),
    ];
    let purpose = prop::sample::select(Purpose::ALL.to_vec());
    prop_oneof![
        (nonce.clone(), identity.clone(), purpose, any::<u32>()).prop_map(|(nonce, identity, purpose, version)| {
            let version = version % 3;
            format!(
                r#"{{"hello":{{"version":{version},"purpose":"{purpose}","nonce":{nonce},"identity":{identity},"accepts":["tpm","pinned-key"]}}}}"#
            )
        }),
        (nonce, demanded, identity).prop_map(|(nonce, demanded, identity)| {
            format!(r#"{{"challenge":{{"nonce":{nonce},"demand":{demanded},"identity":{identity}}}}}"#)
        }),
    ]
    .prop_map(|json| frame::decode(json.as_bytes()).unwrap())
}

/// A demand on the wire is never more than what it is for.
#[test]
fn demands_are_of_one_kind_each() {
    for (json, kind) in [("\"none\"", Kind::None), ("\"pinned-key\"", Kind::PinnedKey)] {
        assert_eq!(serde_json::from_str::<Demand>(json).unwrap().kind(), kind);
    }
    assert!(serde_json::from_str::<Demand>(r#"{"tpm":{"credential":"","pcrs":[]},"none":null}"#).is_err());
}
