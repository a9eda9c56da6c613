//! Both ends of the handshake against a peer that says what it likes: two messages, a line each. Nobody who has no TPM
//! gets through.
#![no_main]

use std::sync::{Arc, LazyLock};

use latchkey_attestation::{LockExpectation, ManifestFile, Policy, References};
use latchkey_channel::frame::decode;
use latchkey_channel::handshake::{AwaitHello, Start};
use latchkey_channel::message::{Evidence, Identity};
use latchkey_channel::tls::Session;
use latchkey_channel::{NoProof, Nonce, PinnedKeyAttester, Attester, Purpose, SpkiHash, Terms, TpmVerifier};
use libfuzzer_sys::fuzz_target;

/// The recordings' certificates are valid then.
const NOW: u64 = 1_800_000_000;

struct World {
    client: Terms,
    server: Terms,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let policy = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p384-chain/policy.json");
    let reference = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p384-chain/reference.json");
    let policy = Policy::from_json(policy).expect("the fixture's policy");
    let reference = ManifestFile::new(reference.to_vec(), None).under(&policy).expect("the fixture's reference values");
    let references = References::new(&policy, vec![reference]).expect("they fit");
    let verifier = Arc::new(TpmVerifier::new(Arc::new(policy), Arc::new(references), LockExpectation::Unlocked));
    let service: Arc<dyn Attester> = Arc::new(PinnedKeyAttester::generate().expect("randomness"));
    World {
        client: Terms { attester: Arc::new(NoProof), verifier: verifier.clone() },
        server: Terms { attester: service, verifier },
    }
});

fn session() -> Session {
    Session { exporter: [7; 32], client_key: SpkiHash([1; 32]), server_key: SpkiHash([2; 32]) }
}

/// A join service, and a node that wants a ticket.
fn serve(hello: &[u8], proof: &[u8]) -> Option<()> {
    let heard = AwaitHello::new(session()).heard(decode(hello).ok()?).ok()?;
    let greeted = heard.greeted(WORLD.server.clone(), NOW).ok()?;
    let identity = WORLD.server.attester.identity(greeted.shows()).ok()?;
    let (_, server) = greeted.challenge(identity, Nonce::from_bytes([2; 32])).ok()?;
    assert!(server.shown(decode(proof).ok()?).ok()?.appraised(NOW).is_err(), "a node without a TPM is admitted");
    Some(())
}

/// A command line that wants to initialise, and a node.
fn call(challenge: &[u8], verdict: &[u8]) -> Option<()> {
    let start = Start::new(session(), Purpose::Init, WORLD.client.clone()).ok()?;
    let (_, client) = start.hello(Identity::None, Nonce::from_bytes([1; 32])).ok()?;
    let challenged = client.challenged(decode(challenge).ok()?, NOW).ok()?;
    let (_, client) = challenged.proof(Evidence::None).ok()?;
    assert!(client.concluded(decode(verdict).ok()?, NOW).is_err(), "a node without a TPM is believed");
    Some(())
}

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (first, second) = input.split_at(end);
    let second = second.get(1..).unwrap_or_default();
    let _ = serve(first, second);
    let _ = call(first, second);
});
