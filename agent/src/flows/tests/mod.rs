//! The flows over the real channel and gRPC on loopback, with a real TPM 2.0 (swtpm) as the node's. Skipped, and says so,
//! where swtpm is not installed.

mod init;
mod listener;
mod recovery;
pub(crate) mod ticket;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchkey_api::grpc::{Channel, Code, Limits, Status, Streaming};
use latchkey_api::v1::{InitClient, InitEvent, RecoveryClient};
use latchkey_attestation::reference::{self, Description, ManifestName, Origin, Reference};
use latchkey_attestation::{AuthenticManifest, ImageVersion, LockExpectation, Policy, ReferenceValues, References};
use latchkey_channel::{Attester, ChannelError, NoProof, Purpose, Terms, TpmAttester, TpmVerifier, Verifier};
use latchkey_keys::Uuid;
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, extended};
use smol::channel::{Receiver, bounded};
use smol::net::TcpStream;

use super::{Node, Offer};
use crate::lifecycle::{Effect, Event, Record};
use crate::stage1::event_queue::EventQueue;

/// No honest step of these tests comes near it; one that hangs fails instead.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const DISK: &str = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
const IMAGE_EVENT: &[u8] = b"the image of this test";

/// A machine that has booted the image of this test.
pub(crate) struct Machine {
    tpm: Swtpm,
    pub(crate) attester: Arc<Mutex<AttestingTpm>>,
}

impl Machine {
    pub(crate) fn start() -> Option<Self> {
        let tpm = Swtpm::start()?;
        let mut attester = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
        attester.extend_event(11, IMAGE_EVENT).unwrap();
        Some(Self { tpm, attester: Arc::new(Mutex::new(attester)) })
    }

    pub(crate) fn attester(&self) -> Arc<dyn Attester> {
        Arc::new(TpmAttester::new(Arc::clone(&self.attester)))
    }

    /// What somebody demands who trusts this machine's authority and the image of this test.
    pub(crate) fn demand(&self, lock: LockExpectation) -> Arc<dyn Verifier> {
        let pem = |pem: std::io::Result<String>| serde_json::to_string(&pem.unwrap()).unwrap();
        let (root, issuer) = (pem(self.tpm.authority().root_pem()), pem(self.tpm.authority().issuer_pem()));
        let image = latchkey_attestation::Digest(extended(&[0; 32], IMAGE_EVENT));
        let policy = format!(
            r#"{{"version": 3, "ek_templates": ["ecc-p384"],
                "ak_trust": [{{"kind": "ek-chain", "roots": [{root}], "intermediates": [{issuer}]}}],
                "ak_algorithms": ["ecdsa-p256-sha256"], "pcrs": {{"enforce": [11], "warn": []}}, "lock": "pcr-15",
                "references": [{{"manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}}]}}"#
        );
        let about = Description {
            manifest: ManifestName::new("test").unwrap(),
            serial: 1,
            image: "image",
            version: ImageVersion::new(1, 0, 0),
            by: "test",
            at: None,
        };
        let origin = Origin { products: [("image.raw".to_owned(), image)].into(), ..Origin::default() };
        let machine = reference::PlatformProfile::new("test", [(11, Reference::enforced(image))].into());
        let values = ReferenceValues::predicted(&about, origin, vec![machine]).unwrap();
        let policy = Policy::from_json(policy.as_bytes()).unwrap();
        let references = References::new(&policy, vec![AuthenticManifest::local(values)]).unwrap();
        Arc::new(TpmVerifier::new(Arc::new(policy), Arc::new(references), lock))
    }

    /// What a listening node shows, to whoever asks for `role`.
    pub(crate) fn reception(&self, role: Purpose) -> impl Fn(Purpose) -> Option<Terms> + use<> {
        let terms = Terms { attester: self.attester(), verifier: Arc::new(NoProof) };
        move |asked| (asked == role || asked == Purpose::Verify).then(|| terms.clone())
    }

    /// A caller that verifies this machine.
    pub(crate) async fn caller(&self, address: SocketAddr, role: Purpose) -> Result<Caller, ChannelError> {
        self.caller_over(TcpStream::connect(address).await.unwrap(), role).await
    }

    pub(crate) async fn caller_over(&self, stream: TcpStream, role: Purpose) -> Result<Caller, ChannelError> {
        let lock = match role {
            Purpose::Attach => LockExpectation::Locked,
            Purpose::Verify => LockExpectation::Any,
            _ => LockExpectation::Unlocked,
        };
        let terms = Terms { attester: Arc::new(NoProof), verifier: self.demand(lock) };
        let proven = latchkey_channel::connect(stream, role, terms, PATIENCE).await?;
        let (channel, driver) = Channel::open(proven, Limits::default()).await.unwrap();
        Ok(Caller { channel, driver: smol::spawn(async move { drop(driver.await) }) })
    }
}

/// The operator's end of a connection.
pub(crate) struct Caller {
    pub(crate) channel: Channel,
    driver: smol::Task<()>,
}

impl Caller {
    pub(crate) fn init(&self) -> InitClient {
        InitClient::new(self.channel.clone())
    }

    pub(crate) fn recovery(&self) -> RecoveryClient {
        RecoveryClient::new(self.channel.clone())
    }

    /// Ends the connection in order.
    pub(crate) async fn closed(self) {
        drop(self.channel);
        self.driver.await;
    }

    /// Cuts the connection.
    pub(crate) async fn cut(self) {
        self.driver.cancel().await;
    }
}

/// A node whose driver is the test.
pub(crate) fn node() -> (Node, Receiver<Box<Offer>>) {
    let (sender, offers) = bounded(16);
    (Node { name: "node-1".into(), disk_uuid: disk(), offers: sender }, offers)
}

pub(crate) fn disk() -> Uuid {
    DISK.parse().unwrap()
}

/// Stage 1 without a disk: the real machine, the real lock, and a disk that `check` and this function only pretend.
pub(crate) async fn drive(
    first: Event,
    offers: &Receiver<Box<Offer>>,
    attester: &Arc<Mutex<AttestingTpm>>,
    check: impl Fn(crate::lifecycle::OfferId, &Offer) -> Event,
) -> Vec<String> {
    fn ignore(_: &Record) {}
    let mut queue = EventQueue::new(ignore);
    let mut did = Vec::new();
    queue.saw(first);
    loop {
        while let Some(effect) = queue.next() {
            did.push(effect.name());
            match effect {
                Effect::CheckKey(id) => {
                    let event = check(id, queue.offer(id).unwrap());
                    queue.saw(event);
                }
                Effect::Answer(id, verdict) => queue.answer(id, verdict),
                Effect::Lock(order) => {
                    let mut attester = attester.lock().unwrap();
                    attester.extend_event(Policy::LOCK_PCR, order.event()).unwrap();
                    let pcr15 = crate::lifecycle::Digest(attester.read_pcr(Policy::LOCK_PCR).unwrap());
                    queue.saw(Event::Extended { pcr15 });
                }
                Effect::OpenDisk(_) => queue.saw(Event::DiskOpened),
                Effect::HandOver(_) => queue.saw(Event::HandedOver),
                Effect::Start(_) | Effect::Stop(_) | Effect::ResumeJoin => {}
                Effect::Leave | Effect::End(_) => {
                    while let Ok(late) = offers.try_recv() {
                        queue.turn_away(*late);
                    }
                    return did;
                }
            }
        }
        queue.keep(*offers.recv().await.unwrap());
    }
}

/// All events of a call, and how it ended.
pub(crate) async fn events(stream: Result<Streaming<InitEvent>, Status>) -> (Vec<InitEvent>, Result<(), Status>) {
    let mut events = Vec::new();
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(status) => return (events, Err(status)),
    };
    loop {
        match stream.message().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(())),
            Err(status) => return (events, Err(status)),
        }
    }
}

pub(crate) async fn refusal(stream: Result<Streaming<InitEvent>, Status>) -> (Code, String) {
    let (_, ended) = events(stream).await;
    let status = ended.unwrap_err();
    (status.code(), status.message().into())
}
