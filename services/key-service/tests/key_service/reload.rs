//! SIGHUP: everything is read again, while callers are served.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig::client::{connect, question};
use crate::rig::pki::{Authority, Identity, Kind};
use crate::rig::{JOIN, Rig, Service};
use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::KeysClient;
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_mins(1);

/// A caller with one connection, which it keeps.
struct Caller {
    client: KeysClient,
    driver: smol::Task<()>,
}

impl Caller {
    async fn new(address: SocketAddr, ca: &Path, identity: &Identity) -> io::Result<Self> {
        let stream = connect(address, ca, identity).await?;
        let (channel, driver) = Channel::open(stream, Limits::default()).await.map_err(io::Error::other)?;
        let driver = smol::spawn(async move { drop(driver.await) });
        Ok(Self { client: KeysClient::new(channel), driver })
    }

    async fn ask(&self) -> Result<(), String> {
        self.client.get_data_key(&question(), TIME).await.map(drop).map_err(|status| status.to_string())
    }
}

fn reload(service: &mut Service) {
    service.signal(Signal::HUP);
    service.next_line("Reloaded");
}

/// Callers with old certificates keep their connections while new ones come with the new, and no call fails.
#[test]
fn certificates_are_rotated_under_load_and_no_call_fails() {
    let mut rig = Rig::new();
    rig.config["callers"][0]["requests_per_minute"] = json!(1_000_000);
    rig.config["callers"][0]["burst"] = json!(100_000);
    let mut service = rig.start();
    let (address, old_ca) = (service.address(), rig.servers.certificate());
    let old = rig.client("join", &[JOIN]);
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = latchkey_test_support::StopOnDrop(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                latchkey_test_support::block_on(async {
                    let caller = Caller::new(address, &old_ca, &old).await.unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        caller.ask().await.unwrap();
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                    caller.driver.cancel().await;
                });
            });
        }
        let until = |more: u64| {
            let goal = calls.load(Ordering::Relaxed) + more;
            let end = Instant::now() + latchkey_test_support::PATIENCE;
            while calls.load(Ordering::Relaxed) < goal {
                assert!(Instant::now() < end, "the callers stopped");
                std::thread::yield_now();
            }
        };
        until(100);
        // Everything is new: both authorities, the service's certificate and key, the caller's.
        let servers = Authority::new(rig.directory.path(), "servers-2");
        let clients = Authority::new(rig.directory.path(), "clients-2");
        let new = clients.issue("join-2", &[JOIN], Kind::Client);
        servers.issue("server", &["127.0.0.1"], Kind::Server);
        fs::rename(clients.certificate(), rig.path("clients-ca.pem")).unwrap();
        reload(&mut service);
        until(100);
        latchkey_test_support::block_on(async {
            Caller::new(address, &servers.certificate(), &new).await.unwrap().ask().await.unwrap();
            assert!(connect(address, &old_ca, &new).await.is_err(), "the old certificate is not shown any more");
            let outdated = Caller::new(address, &servers.certificate(), &old).await;
            let asked = match outdated {
                Ok(caller) => caller.ask().await,
                Err(error) => Err(error.to_string()),
            };
            assert!(asked.is_err(), "an authority that is gone lets nobody in any more");
        });
        until(100);
        drop(stopping);
    });
    assert!(service.page("/metrics").1.contains("reloads_total{outcome=\"done\"} 1"));
    let (status, log) = service.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_bad_file_changes_nothing_and_is_said() {
    let mut rig = Rig::new();
    let mut service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let (address, ca) = (service.address(), rig.servers.certificate());
    let served = || {
        latchkey_test_support::block_on(async {
            Caller::new(address, &ca, &join).await.unwrap().ask().await.unwrap();
        });
    };
    let good = fs::read(rig.path("server.pem")).unwrap();
    fs::write(rig.path("server.pem"), "no certificate").unwrap();
    service.signal(Signal::HUP);
    assert!(service.next_line("Not reloaded").contains("server.pem"));
    served();
    let (status, health) = service.page("/healthz");
    assert!(status.contains("200") && health.contains("changed nothing") && health.contains("server.pem"), "{health}");
    fs::write(rig.path("server.pem"), good).unwrap();
    // What needs a restart is said, too.
    rig.config["limits"] = json!({ "connections": 17 });
    drop(rig.command());
    service.signal(Signal::HUP);
    assert!(service.next_line("Not reloaded").contains("restart"));
    rig.config.as_object_mut().unwrap().remove("limits");
    drop(rig.command());
    reload(&mut service);
    served();
    assert_eq!(service.page("/healthz").1, "ok\n");
}

/// Even for connections that are open.
#[test]
fn a_rule_that_is_gone_counts_at_once() {
    let mut rig = Rig::new();
    let mut service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let address = service.address();
    let ca = rig.servers.certificate();
    let caller = latchkey_test_support::block_on(Caller::new(address, &ca, &join)).unwrap();
    let asked = || latchkey_test_support::block_on(caller.ask());
    asked().unwrap();
    rig.config["callers"] = json!([]);
    drop(rig.command());
    reload(&mut service);
    assert!(asked().unwrap_err().contains("unknown-caller"));
}
