//! A monitor at a real Mosquitto with TLS and the centre's plugin, its numbers in a real API server, seen by stock clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clocks;
mod program;
mod rig;
mod rights;

use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use latchkey_api_server_rig::{ApiServer, is_built_or_skip};
use latchkey_edge_monitor::Monitor;
use latchkey_edge_monitor::birth::{Identity, REBIRTH};
use latchkey_edge_monitor::latest::Latest;
use latchkey_edge_monitor::number::{ConfigMapStore, Numbers};
use latchkey_edge_service::AccountSection;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_client::{Client, Identity as Principal, Limits, Services, Settings, Trust};
use latchkey_kubernetes_client::Connection;
use latchkey_service_runtime::log::{LogFormat, to_stderr};
use latchkey_sparkplug::{BirthDeath, Metric, NodeAddress, Payload, Value};
use latchkey_test_support::block_on;
use rig::{Broker, COMMANDER, Listener, MONITOR};
use serde_json::json;

const NBIRTH: &str = "spBv1.0/ACME-Bolt/NBIRTH/Monitor";
const NDEATH: &str = "spBv1.0/ACME-Bolt/NDEATH/Monitor";
const NCMD: &str = "spBv1.0/ACME-Bolt/NCMD/Monitor";

fn identity(group: &str) -> Identity {
    Identity {
        address: NodeAddress::new(group, "Monitor").unwrap(),
        account: Uuid::constant("9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa"),
        cluster: Uuid::constant("3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1"),
    }
}

/// A broker, an API server, and what the centre says of the monitor.
struct Site {
    broker: Broker,
    api: ApiServer,
    known: Arc<Latest<Option<Identity>>>,
}

/// A monitor that works; dropping it cuts its connection as the end of its process does.
struct Running {
    task: smol::Task<()>,
    stop: smol::channel::Sender<()>,
}

impl Site {
    fn start_or_skip() -> Option<Self> {
        // What a monitor says is in the output of a test that fails.
        static LOG: Once = Once::new();
        LOG.call_once(|| to_stderr(LogFormat::Text));
        if !is_built_or_skip() {
            return None;
        }
        let broker = Broker::start_or_skip()?;
        let api = ApiServer::start();
        let namespace = json!({"metadata": {"name": "fplus-edge"}});
        assert_eq!(api.client(&api.admin()).post("/api/v1/namespaces", &namespace).status(), 201);
        Some(Self { broker, api, known: Arc::new(Latest::new(Some(identity("ACME-Bolt")))) })
    }

    fn monitor(&self) -> Running {
        let account =
            AccountSection { principal: MONITOR.0.parse().unwrap(), password_file: self.broker.path("password") };
        let password = MONITOR.1.to_owned().into();
        let client = Client::new(Settings {
            identity: Principal::basic(&MONITOR.0.parse().unwrap(), &password).unwrap(),
            trust: Trust::none(),
            services: Services::default(),
            limits: Limits::default(),
        });
        let kubeconfig = self.api.kubeconfig("edge-monitor", &self.api.admin());
        let store = ConfigMapStore::new(Connection::open(&kubeconfig).unwrap(), "fplus-edge".into());
        let monitor = Monitor {
            client,
            account,
            cluster: identity("ACME-Bolt").cluster,
            broker: latchkey_edge_monitor::broker::Broker {
                url: Some(format!("mqtts://localhost:{}", self.broker.port()).parse().unwrap()),
                authority: Some(self.broker.path("ca.pem")),
                insecure: false,
            },
            numbers: Numbers::new(store),
        };
        let (stop, stopped) = smol::channel::bounded(1);
        let known = Arc::clone(&self.known);
        let stop_asked = async move {
            let _ = stopped.recv().await;
        };
        Running { task: smol::spawn(async move { monitor.publish(&known, stop_asked).await }), stop }
    }

    fn number_kept(&self) -> String {
        let path = "/api/v1/namespaces/fplus-edge/configmaps/edge-monitor";
        let kept = self.api.client(&self.api.admin()).get(path).granted();
        kept["data"]["bdSeq"].as_str().unwrap().to_owned()
    }
}

impl Running {
    fn killed(self) {
        block_on(self.task.cancel());
    }

    fn stopped(self) {
        block_on(async {
            self.stop.send(()).await.unwrap();
            self.task.await;
        });
    }
}

fn rebirth() -> Vec<u8> {
    let metrics = vec![Metric::new(REBIRTH, Value::Boolean(true))];
    Payload { timestamp: Some(1), metrics, ..Payload::default() }.encode()
}

/// The next message is a birth with this number, all of it as it should be.
fn born(listener: &Listener, number: u8) {
    let (topic, bytes) = listener.message();
    let birth = Payload::decode(&bytes).unwrap();
    assert_eq!(topic, NBIRTH);
    assert_eq!(birth, identity("ACME-Bolt").birth(BirthDeath::new(number), 0, birth.timestamp.unwrap()));
}

/// The next message is the death of it.
fn dead(listener: &Listener, number: u8) {
    let (topic, bytes) = listener.message();
    let death = Payload::decode(&bytes).unwrap();
    assert_eq!(topic, NDEATH);
    assert_eq!(death, Identity::death(BirthDeath::new(number), death.timestamp.unwrap()));
}

#[test]
fn births_and_deaths_are_seen_with_their_numbers() {
    let Some(site) = Site::start_or_skip() else { return };
    let listener = site.broker.listen();
    let monitor = site.monitor();
    born(&listener, 0);
    assert_eq!(site.number_kept(), "0");
    // Its process is gone: the broker says what it was told to say.
    monitor.killed();
    dead(&listener, 0);
    // A new process, and the next number.
    let monitor = site.monitor();
    born(&listener, 1);
    assert_eq!(site.number_kept(), "1");
    // A command: a birth, and nothing else, of the same number.
    let sent = site.broker.publish(COMMANDER, NCMD, &rebirth());
    assert!(sent.status.success(), "{sent:?}");
    born(&listener, 1);
    // Others are none: the next message is the death, which it says itself, since it ends on purpose.
    for hostile in [&b"\xff\xff\xff"[..], &[0x12, 0].repeat(100_000), b"", &rebirth()[..20]] {
        assert!(site.broker.publish(COMMANDER, NCMD, hostile).status.success());
    }
    site.broker.says("DISCONNECT");
    monitor.stopped();
    dead(&listener, 1);
    let monitor = site.monitor();
    born(&listener, 2);
    monitor.stopped();
    dead(&listener, 2);
}

#[test]
fn another_group_is_refused_by_the_plugin_and_a_new_address_is_taken() {
    let Some(site) = Site::start_or_skip() else { return };
    let listener = site.broker.listen();
    let sent = site.broker.publish(MONITOR, "spBv1.0/ACME-Other/NBIRTH/Monitor", b"forged");
    assert!(String::from_utf8_lossy(&[sent.stdout, sent.stderr].concat()).contains("Not authorized"));
    // Even where the centre gave it that address, and not the rights.
    site.known.set(Some(identity("ACME-Other")));
    let monitor = site.monitor();
    // The second time it comes, it was refused the first time.
    for _ in 0..2 {
        site.broker.says("spBv1.0/ACME-Other/NCMD/Monitor (QoS");
    }
    // It is tried again with longer pauses, which a new address ends.
    site.known.set(Some(identity("ACME-Bolt")));
    // Nothing of the other group came before.
    let (topic, _) = listener.message();
    assert_eq!(topic, NBIRTH);
    site.known.set(None);
    let (topic, _) = listener.message();
    assert_eq!(topic, NDEATH);
    monitor.stopped();
}

#[test]
fn a_broker_that_is_back_hears_a_birth_within_five_seconds() {
    let Some(mut site) = Site::start_or_skip() else { return };
    let monitor = site.monitor();
    site.broker.says(NBIRTH);
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        site.broker.kill();
        site.broker.start();
        let back = Instant::now();
        site.broker.says(NBIRTH);
        slowest = slowest.max(back.elapsed());
    }
    eprintln!("slowest birth after the broker was back: {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    // The API server is away as well: numbers go on without it.
    site.api.kill_api();
    site.broker.kill();
    site.broker.start();
    let back = Instant::now();
    site.broker.says(NBIRTH);
    eprintln!("and without an API server: {:?}", back.elapsed());
    site.api.start_api();
    monitor.stopped();
}
