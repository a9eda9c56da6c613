//! SIGHUP: everything that the configuration names is read again, while nodes are served.

use crate::service::key_service::{BOTH, certificates, rig_with};
use crate::service::rig::{Client, Machine, Rig, Service, TIME};
use latchkey_api::v1::RejoinRequest;
use latchkey_channel::{Purpose, SpkiHash};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

/// A new key for the service, which is not in force yet.
fn new_identity(rig: &Rig) -> SpkiHash {
    latchkey_join_service::identity::create(&rig.path("next.key")).unwrap().hash()
}

fn put_in_place(rig: &Rig) {
    fs::rename(rig.path("next.key"), rig.path("identity.key")).unwrap();
}

fn reload(service: &mut Service) {
    service.signal(Signal::HUP);
    service.next_line(&["Reloaded"]);
}

/// A node that asks again and again over the one connection that it was accepted on.
fn keep_asking(client: Client, machine: &Machine, stop: &AtomicBool, answered: &AtomicU64) {
    let request = RejoinRequest { disk_uuid: DISK.to_owned(), ..RejoinRequest::default() };
    let asked = client.call(machine, Purpose::Rejoin, async |client| {
        while !stop.load(Ordering::Relaxed) {
            drop(client.issue_rejoin_ticket(&request, TIME).await?);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    asked.unwrap();
}

/// Blocks until `count` has grown by so many.
fn until(count: &AtomicU64, more: u64) {
    let (goal, end) = (count.load(Ordering::Relaxed) + more, Instant::now() + latchkey_test_support::PATIENCE);
    while count.load(Ordering::Relaxed) < goal {
        assert!(Instant::now() < end, "the nodes stopped");
        std::thread::yield_now();
    }
}

/// The service's own key, and all certificates between it and the key service. Nodes that were accepted keep their connections
/// and get their tickets over them, nodes that come meet the new key, and no call fails.
#[test]
fn keys_and_certificates_are_rotated_under_load_and_no_accepted_connection_ends() {
    let node = Machine::new();
    let (rig, keys, _port) = rig_with(&node, BOTH);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let (old, next) = (*service, new_identity(&rig));
    let (stop, kept, fresh) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = latchkey_test_support::StopOnDrop(&stop);
        for _ in 0..3 {
            scope.spawn(|| keep_asking(old, &node, &stop, &kept));
        }
        scope.spawn(|| {
            // Has both hashes on its command line, as a node has while the key is rotated.
            let client = old.trusting_too(next);
            while !stop.load(Ordering::Relaxed) {
                client.rejoin(&node, DISK).unwrap();
                fresh.fetch_add(1, Ordering::Relaxed);
            }
        });
        until(&kept, 30);
        until(&fresh, 5);
        certificates(rig.files.path());
        put_in_place(&rig);
        keys.reload();
        assert_eq!(keys.metric("connections_total"), 1);
        reload(&mut service);
        until(&kept, 30);
        until(&fresh, 5);
        assert_eq!(keys.metric("connections_total"), 2, "keys come over a connection with the new certificates");
        assert_eq!(old.rejoin(&node, DISK).unwrap_err().code(), "key-not-pinned", "the old key is not shown any more");
        old.trusting(next).rejoin(&node, DISK).unwrap();
        drop(stopping);
    });
    assert_eq!(service.metric("reloads_total{outcome=\"done\"}"), 1);
    assert_eq!(service.page("/healthz").1, "ok\n");
    let (status, log) = service.stop();
    assert!(status.success(), "{log}");
}

/// As a whole or not at all: a good key beside a certificate that is broken is not taken either.
#[test]
fn a_broken_configuration_keeps_the_old_one_and_is_said() {
    let node = Machine::new();
    let (mut rig, _keys, _port) = rig_with(&node, BOTH);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let next = new_identity(&rig);
    let (old_key, certificate) =
        (fs::read(rig.path("identity.key")).unwrap(), fs::read(rig.path("client.pem")).unwrap());
    put_in_place(&rig);
    fs::write(rig.path("client.pem"), "no certificate").unwrap();
    service.signal(Signal::HUP);
    assert!(service.next_line(&["Not reloaded"]).contains("client.pem"));
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.trusting(next).rejoin(&node, DISK).unwrap_err().code(), "key-not-pinned");
    let (status, health) = service.page("/healthz");
    assert!(status.contains("200") && health.contains("changed nothing") && health.contains("client.pem"), "{health}");
    fs::write(rig.path("client.pem"), certificate).unwrap();

    // What needs a restart changes nothing else, either.
    let limits = rig.config["limits"].take();
    rig.config["limits"] = json!({ "connections": 17 });
    drop(rig.command());
    service.signal(Signal::HUP);
    assert!(service.next_line(&["Not reloaded"]).contains("restart"));
    service.rejoin(&node, DISK).unwrap();
    rig.config["limits"] = limits;
    drop(rig.command());

    fs::write(rig.path("identity.key"), "no key").unwrap();
    service.signal(Signal::HUP);
    assert!(service.next_line(&["Not reloaded"]).contains("identity.key"));
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.metric("reloads_total{outcome=\"failed\"}"), 3);

    fs::write(rig.path("identity.key"), old_key).unwrap();
    reload(&mut service);
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.page("/healthz").1, "ok\n");
}
