//! What a peer can make a node's TPM do: its commands are counted on their way to a real TPM 2.0 (swtpm).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use latchkey_attestation::LockExpectation;
use latchkey_channel::frame::{self, Slot};
use latchkey_channel::message::{Hello, Identity, Message};
use latchkey_channel::rig::{self, SharedKey};
use latchkey_channel::{
    ChannelError, Kind, Kinds, NoProof, Nonce, PinnedKeyAttester, PinnedKeyVerifier, Proven, Purpose, Side,
    TpmAttester, TpmVerifier, accept, connect,
};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, Socket, Tpm, Transport};
use latchkey_tpm::wire::EkTemplate;
use smol::future::zip;
use smol::io::AsyncWriteExt;
use smol::net::unix::UnixStream;

use crate::attacks::real_tpm::{IMAGE_EVENT, demand};
use crate::support::world::{TIME, meet, terms, wire};

/// Carries commands to the TPM and counts them.
struct Counted {
    tpm: Socket,
    commands: Arc<AtomicUsize>,
}

impl Transport for Counted {
    fn transmit(&mut self, command: &[u8], response: &mut Vec<u8>) -> std::io::Result<()> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.tpm.transmit(command, response)
    }
}

/// Nonces of another length, and of 32 bytes in another encoding.
fn bad_nonces() -> Vec<String> {
    let hex = "07".repeat(32);
    let base64 = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let others = ["", "07", &hex[2..], &format!("{hex}07"), &"AB".repeat(32), &format!(" {}", &hex[1..]), base64];
    others.map(str::to_owned).into()
}

/// The message with another text for a nonce.
fn with_nonce(message: &Message, nonce: &str) -> Vec<u8> {
    let frame = frame::encode(message).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&frame[4..]).unwrap();
    let body = json.as_object_mut().unwrap().values_mut().next().unwrap();
    body["nonce"] = nonce.into();
    let json = json.to_string();
    [&u32::try_from(json.len()).unwrap().to_be_bytes(), json.as_bytes()].concat()
}

/// A node that waits, and one that asks, with a TPM whose commands are counted: a peer with a bad nonce costs it none.
#[test]
fn a_bad_nonce_costs_no_command_of_the_nodes_tpm() {
    let Some(tpm) = Swtpm::start() else { return };
    let commands = Arc::new(AtomicUsize::new(0));
    let transport = Counted { tpm: tpm.socket().unwrap(), commands: commands.clone() };
    let mut attesting = AttestingTpm::new(Tpm::new(transport), EkTemplate::P384H3).unwrap();
    attesting.extend_event(11, IMAGE_EVENT).unwrap();
    let attester = TpmAttester::new(Arc::new(Mutex::new(attesting)));
    let of_node = demand(&tpm, LockExpectation::Unlocked);
    let before = commands.load(Ordering::Relaxed);

    for nonce in bad_nonces() {
        let (near, far) = wire();
        let terms = terms(attester.clone(), NoProof);
        let reception = move |_| Some(terms.clone());
        let key = SharedKey::new();
        let operator = async {
            let (mut stream, _) = rig::unproven(&key, near, Side::Client).await.unwrap();
            let (nonce_of, accepts) = (Nonce::from_bytes([7; 32]), Kinds::of(&[Kind::Tpm]));
            let hello =
                Hello { version: 1, purpose: Purpose::Init, nonce: nonce_of, identity: Identity::None, accepts };
            stream.write_all(&with_nonce(&Message::Hello(Box::new(hello)), &nonce)).await.unwrap();
            stream.flush().await.unwrap();
            drop(rig::receive(&mut stream, Slot::Challenge).await);
        };
        let (node, ()) = latchkey_test_support::block_on(zip(accept(far, &reception, TIME), operator));
        assert_eq!(node.unwrap_err().code().as_str(), "frame-malformed", "{nonce:?}");
    }
    for nonce in bad_nonces() {
        let (node, service) = join(&attester, &of_node, Some(&nonce));
        assert_eq!(node.unwrap_err().code().as_str(), "frame-malformed", "{nonce:?}");
        drop(service);
    }
    assert_eq!(commands.load(Ordering::Relaxed), before);
    // The same with the service's own nonce.
    let (node, service) = join(&attester, &of_node, None);
    assert!(node.is_ok() && service.is_ok(), "{node:?}");
    assert!(commands.load(Ordering::Relaxed) > before, "a proof does cost commands");
}

type Ended = Result<Proven<UnixStream>, ChannelError>;

/// A node that joins at an honest service. With a `nonce`, somebody who sees both sides puts that one into the challenge.
fn join(attester: &TpmAttester, of_node: &TpmVerifier, nonce: Option<&str>) -> (Ended, Ended) {
    let service = PinnedKeyAttester::generate().unwrap();
    let client = terms(attester.clone(), PinnedKeyVerifier::new([service.hash()]));
    let server = terms(service, of_node.clone());
    let Some(nonce) = nonce else { return meet(Purpose::Join, client, server) };
    let ((node_end, up), (down, service_end)) = (wire(), wire());
    let (own, key) = (SharedKey::new(), SharedKey::new());
    let reception = move |_| Some(server.clone());
    let middle = async {
        let (up, down) = zip(rig::unproven(&own, up, Side::Server), rig::unproven(&key, down, Side::Client)).await;
        let (mut up, mut down) = (up.unwrap().0, down.unwrap().0);
        let hello = rig::receive(&mut up, Slot::Hello).await.unwrap();
        rig::send(&mut down, &hello).await.unwrap();
        let challenge = rig::receive(&mut down, Slot::Challenge).await.unwrap();
        up.write_all(&with_nonce(&challenge, nonce)).await.unwrap();
        up.flush().await.unwrap();
        drop(rig::receive(&mut up, Slot::Proof).await);
    };
    let ends = zip(connect(node_end, Purpose::Join, client, TIME), accept(service_end, &reception, TIME));
    latchkey_test_support::block_on(zip(ends, middle)).0
}
