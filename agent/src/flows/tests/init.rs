//! `latchkey init` against a fresh node.

use std::sync::Arc;

use latchkey_api::grpc::{Channel, Code, Limits};
use latchkey_api::v1::{
    AttachRequest, AuthorizeRequest, ClusterSettings, DescribeRequest, InitClient, InitRequest, InitServer, NodeStage,
    RecoverRequest, RecoveryClient, init_event,
};
use latchkey_attestation::LockExpectation;
use latchkey_channel::{NoProof, Purpose, Terms};
use latchkey_keys::{ClusterId, Secret};
use smol::channel::Receiver;
use smol::net::TcpStream;

use super::{Caller, DISK, Machine, PATIENCE, drive, events, node, refusal};
use crate::flows::init::InitFlow;
use crate::flows::init_auth::InitAuth;
use crate::flows::listener::Listener;
use crate::flows::progress::Broadcast;
use crate::flows::{Offer, Terms as OfferTerms};
use crate::handover::Task;
use crate::lifecycle::{Event, NodeRole, OfferId};

const SECRET: &[u8] = b"an init secret of the test";

struct Fresh {
    machine: Machine,
    listener: Listener,
    offers: Receiver<Box<Offer>>,
    progress: Broadcast,
}

async fn fresh(with_hash: bool) -> Option<Fresh> {
    fresh_of(with_hash, true).await
}

async fn fresh_of(with_hash: bool, registers: bool) -> Option<Fresh> {
    let machine = Machine::start()?;
    let (node, offers) = node();
    let progress = Broadcast::default();
    let init_auth = with_hash.then(|| InitAuth::new(&bcrypt::hash(SECRET, 8).unwrap()).unwrap());
    let flow = InitFlow::new(node, init_auth, progress.clone(), registers);
    let listener = Listener::open(0, machine.reception(Purpose::Init), InitServer::new(flow)).await.unwrap();
    Some(Fresh { machine, listener, offers, progress })
}

fn request() -> InitRequest {
    InitRequest {
        cluster_name: "plant".into(),
        disk_uuid: DISK.into(),
        state_disk_key: vec![1; 32],
        measurement_secret: vec![2; 32],
        measurement_salt: vec![3; 32],
        invitation: Vec::new(),
        settings: Some(ClusterSettings { control_plane_endpoint: "10.0.2.15:6443".into(), ..Default::default() }),
        control_plane_files: None,
    }
}

fn authorize(secret: &[u8]) -> AuthorizeRequest {
    AuthorizeRequest { init_secret: secret.into() }
}

/// A connection that has proven the init secret.
async fn operator(machine: &Machine, listener: &Listener) -> Caller {
    let caller = machine.caller(listener.address(), Purpose::Init).await.unwrap();
    caller.init().authorize(&authorize(SECRET), PATIENCE).await.unwrap();
    caller
}

/// For struct updates: the message wipes itself and so can't be taken apart.
macro_rules! request_with {
    ($($field:ident: $value:expr),*) => {{
        let mut request = request();
        $(request.$field = $value;)*
        request
    }};
}

fn cluster() -> ClusterId {
    ClusterId::derive(&Secret::from_slice(&[2; 32]).unwrap(), &[3; 32]).unwrap()
}

fn no_key(_: OfferId, _: &Offer) -> Event {
    panic!("a fresh disk has no key to check")
}

const FRESH: Event = Event::DiskFresh { attempts: 0 };

#[test]
fn the_right_secret_makes_the_node_the_first_and_the_operator_is_told_of_the_lock() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, progress }) = fresh(true).await else { return };
        progress.tell("network", "10.0.2.15", 12);
        let caller = operator(&machine, &listener).await;
        let described = caller.init().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        assert_eq!((described.stage(), described.disk_uuid.as_str()), (NodeStage::Fresh, DISK));

        let call = async { events(caller.init().init(&request(), PATIENCE).await).await };
        let node = drive(FRESH, &offers, &machine.attester, no_key);
        let ((events, ended), did) = smol::future::zip(call, node).await;
        ended.unwrap();
        assert!(did.ends_with(&["accept 0".into(), "leave".into()]), "{did:?}");
        assert!(
            matches!(events[0].event.as_ref().unwrap(), init_event::Event::Progress(line) if line.step == "network")
        );
        let Some(init_event::Event::Locked(locked)) = &events.last().unwrap().event else { panic!("{events:?}") };
        assert_eq!(locked.cluster_id, cluster().as_bytes());
        let pcr15 = machine.attester.lock().unwrap().read_pcr(15).unwrap();
        assert_eq!(pcr15, cluster().locked_pcr15());
    });
}

#[test]
fn what_the_operator_asked_for_is_what_the_node_is_offered() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = operator(&machine, &listener).await;
        let _call = smol::spawn({
            let init = caller.init();
            async move { events(init.init(&request(), PATIENCE).await).await }
        });
        let offer = offers.recv().await.unwrap();
        assert_eq!((offer.disk_key.expose(), offer.measurement_secret.expose()), (&[1; 32], &[2; 32]));
        let OfferTerms::Member(membership) = &offer.terms else { panic!("no membership") };
        assert_eq!(
            (membership.role, membership.epoch, membership.cluster_name.as_str()),
            (NodeRole::First, 1, "plant")
        );
        assert_eq!(membership.cluster_id, cluster());
        assert!(matches!(&membership.task, Task::Init { init_secret_hash, .. } if init_secret_hash.starts_with("$2")));
    });
}

#[test]
fn an_invitation_is_for_a_node_that_registers_its_cluster() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh_of(true, false).await else { return };
        let caller = operator(&machine, &listener).await;
        let invited = request_with!(invitation: vec![0x11; 32]);
        let (_, ended) = events(caller.init().init(&invited, PATIENCE).await).await;
        let status = ended.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("latchkey.centre"), "{status}");
        assert!(offers.is_empty());

        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = operator(&machine, &listener).await;
        let short = request_with!(invitation: vec![0x11; 31]);
        let (_, ended) = events(caller.init().init(&short, PATIENCE).await).await;
        assert_eq!(ended.unwrap_err().code(), Code::InvalidArgument);
        let _call = smol::spawn({
            let init = caller.init();
            async move { events(init.init(&invited, PATIENCE).await).await }
        });
        let offer = offers.recv().await.unwrap();
        let OfferTerms::Member(membership) = &offer.terms else { panic!("no membership") };
        let Task::Init { invitation, .. } = &membership.task else { panic!("no init") };
        assert_eq!(invitation.expose(), [0x11; 32]);
    });
}

#[test]
fn a_wrong_secret_is_denied_and_too_many_are_not_even_looked_at() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = machine.caller(listener.address(), Purpose::Init).await.unwrap();
        let guess = authorize(b"an init secret of a guess");
        for _ in 0..5 {
            let status = caller.init().authorize(&guess, PATIENCE).await.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied);
        }
        let status = caller.init().authorize(&authorize(SECRET), PATIENCE).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("wait"), "{status}");
        assert_eq!(refusal(caller.init().init(&request(), PATIENCE).await).await.0, Code::PermissionDenied);
        assert!(offers.is_empty());
    });
}

#[test]
fn keys_are_taken_only_on_the_connection_that_proved_the_secret() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let _knows = operator(&machine, &listener).await;
        let other = machine.caller(listener.address(), Purpose::Init).await.unwrap();
        let (code, message) = refusal(other.init().init(&request(), PATIENCE).await).await;
        assert_eq!(code, Code::PermissionDenied);
        assert!(message.contains("Authorize"), "{message}");
        for short_or_long in [b"short".to_vec(), vec![b'a'; 73]] {
            let status = other.init().authorize(&authorize(&short_or_long), PATIENCE).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
        }
        assert!(offers.is_empty());
    });
}

#[test]
fn a_request_that_is_not_right_in_every_field_is_refused_and_never_offered() {
    let cases = [
        (request_with!(disk_uuid: "11111111-7dec-41d0-a765-00a0c91e6bf6".into()), Code::FailedPrecondition),
        (request_with!(disk_uuid: String::new()), Code::FailedPrecondition),
        (request_with!(state_disk_key: vec![1; 31]), Code::InvalidArgument),
        (request_with!(state_disk_key: vec![]), Code::InvalidArgument),
        (request_with!(measurement_secret: vec![2; 33]), Code::InvalidArgument),
        (request_with!(measurement_salt: vec![3; 16]), Code::InvalidArgument),
        (request_with!(cluster_name: "Plant 7".into()), Code::InvalidArgument),
        (request_with!(cluster_name: String::new()), Code::InvalidArgument),
        (
            request_with!(settings: Some(ClusterSettings {
                apiserver_cert_sans: vec!["a.example".into(); 33], ..Default::default()
            })),
            Code::InvalidArgument,
        ),
        (
            request_with!(settings: Some(ClusterSettings {
                pod_cidr: "10.0.0.0/8\nevil: true".into(), ..Default::default()
            })),
            Code::InvalidArgument,
        ),
        (
            request_with!(settings: Some(ClusterSettings {
                apiserver_cert_sans: vec!["a".repeat(257)], ..Default::default()
            })),
            Code::InvalidArgument,
        ),
        (
            request_with!(settings: Some(ClusterSettings {
                apiserver_cert_sans: vec!["a.example".into(), String::new()], ..Default::default()
            })),
            Code::InvalidArgument,
        ),
    ];
    latchkey_test_support::block_on(async {
        for cases in cases.chunks(5) {
            let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
            let caller = operator(&machine, &listener).await;
            for (request, expected) in cases {
                let (code, message) = refusal(caller.init().init(request, PATIENCE).await).await;
                assert_eq!(code, *expected, "{message}");
            }
            assert!(offers.is_empty());
        }
    });
}

#[test]
fn a_request_of_half_a_megabyte_is_refused_by_its_size() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = operator(&machine, &listener).await;
        let huge = request_with!(cluster_name: "a".repeat(512 << 10));
        assert_eq!(refusal(caller.init().init(&huge, PATIENCE).await).await.0, Code::ResourceExhausted);
        assert!(offers.is_empty());
    });
}

#[test]
fn without_a_hash_in_metadata_nobody_can_initialise_the_node() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(false).await else { return };
        let caller = machine.caller(listener.address(), Purpose::Init).await.unwrap();
        let status = caller.init().authorize(&authorize(SECRET), PATIENCE).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("metadata"), "{status}");
        assert_eq!(refusal(caller.init().init(&request(), PATIENCE).await).await.0, Code::FailedPrecondition);
        assert!(offers.is_empty());
    });
}

#[test]
fn a_connection_for_another_purpose_can_look_and_nothing_else() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = machine.caller(listener.address(), Purpose::Verify).await.unwrap();
        caller.init().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        assert_eq!(refusal(caller.init().init(&request(), PATIENCE).await).await.0, Code::PermissionDenied);
        let attach = AttachRequest { init_secret: SECRET.into(), cluster_id: vec![0; 32] };
        assert_eq!(refusal(caller.init().attach(&attach, PATIENCE).await).await.0, Code::PermissionDenied);
        let recover = RecoverRequest {
            disk_uuid: DISK.into(),
            state_disk_key: vec![1; 32],
            measurement_secret: vec![2; 32],
            components: None,
        };
        let status = RecoveryClient::new(caller.channel.clone()).recover(&recover, PATIENCE).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        for role in [Purpose::Attach, Purpose::Recover] {
            assert!(machine.caller(listener.address(), role).await.is_err(), "{role}");
        }
        assert!(offers.is_empty());
    });
}

#[test]
fn of_two_operators_at_once_one_wins_and_the_other_is_told() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let init = || async {
            let caller = operator(&machine, &listener).await;
            events(caller.init().init(&request(), PATIENCE).await).await
        };
        let both = smol::future::zip(init(), init());
        // Both offers lie before the node when it begins.
        let node = async {
            while offers.len() < 2 {
                smol::future::yield_now().await;
            }
            drive(FRESH, &offers, &machine.attester, no_key).await
        };
        let (((_, first), (_, second)), did) = Box::pin(smol::future::zip(both, node)).await;
        assert_eq!(did.iter().filter(|did| *did == "lock").count(), 1);
        let status = match (first, second) {
            (Ok(()), Err(status)) | (Err(status), Ok(())) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("already-activating"), "{status}");
    });
}

#[test]
fn an_operator_lost_right_after_the_offer_does_not_stop_the_node() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, .. }) = fresh(true).await else { return };
        let caller = operator(&machine, &listener).await;
        let init = caller.init();
        let call = smol::spawn(async move { events(init.init(&request(), PATIENCE).await).await });
        while offers.is_empty() {
            smol::future::yield_now().await;
        }
        call.cancel().await;
        caller.cut().await;
        let did = drive(FRESH, &offers, &machine.attester, no_key).await;
        assert_eq!(did.last().unwrap(), "leave");
    });
}

#[test]
fn an_operator_that_reads_nothing_holds_nothing_up() {
    latchkey_test_support::block_on(async {
        let Some(Fresh { machine, listener, offers, progress }) = fresh(true).await else { return };
        for at in 0..64 {
            progress.tell("step", &"x".repeat(2000), at);
        }
        let terms = Terms { attester: Arc::new(NoProof), verifier: machine.demand(LockExpectation::Unlocked) };
        let stream = TcpStream::connect(listener.address()).await.unwrap();
        let proven = latchkey_channel::connect(stream, Purpose::Init, terms, PATIENCE).await.unwrap();
        let (channel, driver) = Channel::open(proven, Limits { stream_window: 64, ..Limits::default() }).await.unwrap();
        let _driver = smol::spawn(async move { drop(driver.await) });
        InitClient::new(channel.clone()).authorize(&authorize(SECRET), PATIENCE).await.unwrap();
        let stream = InitClient::new(channel).init(&request(), PATIENCE).await.unwrap();
        let did = drive(FRESH, &offers, &machine.attester, no_key).await;
        assert_eq!(did.last().unwrap(), "leave");
        drop(stream);
    });
}
