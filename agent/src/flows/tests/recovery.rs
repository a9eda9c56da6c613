//! `latchkey recover` against a node whose disk exists.

use latchkey_api::OfferRefusal;
use latchkey_api::grpc::Code;
use latchkey_api::v1::{DescribeRequest, NodeStage, RecoverRequest, RecoveryServer};
use latchkey_channel::Purpose;
use smol::channel::Receiver;

use super::{DISK, Machine, PATIENCE, drive, node};
use crate::flows::Offer;
use crate::flows::listener::Listener;
use crate::flows::recovery::RecoveryFlow;
use crate::lifecycle::{Digest, DiskPhase, Event, NodeRole, OfferId};

const CLUSTER: Digest = Digest([7; 32]);

async fn existing() -> Option<(Machine, Listener, Receiver<Box<Offer>>)> {
    let machine = Machine::start()?;
    let (node, offers) = node();
    let service = RecoveryServer::new(RecoveryFlow::new(node));
    let listener = Listener::open(0, machine.reception(Purpose::Recover), service).await.unwrap();
    Some((machine, listener, offers))
}

fn request(key: u8, secret: u8) -> RecoverRequest {
    RecoverRequest {
        disk_uuid: DISK.into(),
        state_disk_key: vec![key; 32],
        measurement_secret: vec![secret; 32],
        components: None,
    }
}

/// A disk that opens with ones and belongs to the cluster of twos.
fn check(id: OfferId, offer: &Offer) -> Event {
    match (offer.disk_key.expose() == &[1; 32], offer.measurement_secret.expose() == &[2; 32]) {
        (false, _) => Event::KeyWrong { id, code: OfferRefusal::DiskWrongKey },
        (true, false) => Event::KeyWrong { id, code: OfferRefusal::WrongCluster },
        (true, true) => Event::KeyFits {
            id,
            phase: DiskPhase::Bootstrapped,
            role: NodeRole::Worker,
            cluster_id: CLUSTER,
            epoch: 1,
            attempts: 0,
        },
    }
}

#[test]
fn a_wrong_key_is_refused_the_node_keeps_listening_and_the_right_one_opens_it() {
    latchkey_test_support::block_on(async {
        let Some((machine, listener, offers)) = existing().await else { return };
        let operator = async {
            let caller = machine.caller(listener.address(), Purpose::Recover).await.unwrap();
            let recovery = caller.recovery();
            let described = recovery.describe(&DescribeRequest {}, PATIENCE).await.unwrap();
            assert_eq!((described.stage(), described.disk_uuid.as_str()), (NodeStage::Existing, DISK));
            for (request, code) in [(request(9, 2), "disk-wrong-key"), (request(1, 9), "wrong-cluster")] {
                let status = recovery.recover(&request, PATIENCE).await.unwrap_err();
                assert_eq!(status.code(), Code::InvalidArgument);
                assert!(status.message().starts_with(code), "{status}");
            }
            recovery.recover(&request(1, 2), PATIENCE).await.unwrap()
        };
        let node = drive(Event::DiskExisting, &offers, &machine.attester, check);
        let (answer, did) = smol::future::zip(operator, node).await;
        assert_eq!(answer.cluster_id, CLUSTER.0);
        assert_eq!(did.iter().filter(|did| *did == "lock").count(), 1);
        assert_eq!(did.last().unwrap(), "leave");
    });
}

#[test]
fn a_key_of_a_bad_length_or_for_another_disk_never_reaches_the_disk() {
    latchkey_test_support::block_on(async {
        let Some((machine, listener, offers)) = existing().await else { return };
        let caller = machine.caller(listener.address(), Purpose::Recover).await.unwrap();
        let mut short = request(1, 2);
        short.state_disk_key.pop();
        let mut long = request(1, 2);
        long.measurement_secret.push(0);
        let mut other = request(1, 2);
        other.disk_uuid = "11111111-7dec-41d0-a765-00a0c91e6bf6".into();
        let cases = [(short, Code::InvalidArgument), (long, Code::InvalidArgument), (other, Code::FailedPrecondition)];
        for (request, code) in cases {
            assert_eq!(caller.recovery().recover(&request, PATIENCE).await.unwrap_err().code(), code);
        }
        assert!(offers.is_empty());
    });
}

#[test]
fn a_flood_of_keys_is_bounded() {
    latchkey_test_support::block_on(async {
        let Some((machine, listener, offers)) = existing().await else { return };
        let flood = async {
            let caller = machine.caller(listener.address(), Purpose::Recover).await.unwrap();
            let mut codes = Vec::new();
            for _ in 0..20 {
                codes.push(caller.recovery().recover(&request(9, 2), PATIENCE).await.unwrap_err().code());
            }
            codes
        };
        let node = async {
            drive(Event::DiskExisting, &offers, &machine.attester, check).await;
            panic!("no wrong key ends it");
        };
        let codes = smol::future::or(flood, node).await;
        assert!(codes.contains(&Code::ResourceExhausted), "{codes:?}");
        assert_eq!(codes[0], Code::InvalidArgument);
    });
}

#[test]
fn a_connection_for_verify_cannot_recover() {
    latchkey_test_support::block_on(async {
        let Some((machine, listener, offers)) = existing().await else { return };
        let caller = machine.caller(listener.address(), Purpose::Verify).await.unwrap();
        caller.recovery().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        let status = caller.recovery().recover(&request(1, 2), PATIENCE).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert!(offers.is_empty());
        assert!(machine.caller(listener.address(), Purpose::Init).await.is_err());
    });
}
