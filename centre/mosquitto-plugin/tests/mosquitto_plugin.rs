//! The plugin in a real Mosquitto, with passwords in a real KDC.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use latchkey_broker::server::Refusal;
use latchkey_factory_plus::Upn;
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_kerberos::{Kerberos, Settings};
use rig::{Broker, Permissions, Verify, grants, serve};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// As the auth service verifies.
impl Verify for Kerberos {
    async fn verify(&self, name: &str, password: &Zeroizing<Vec<u8>>) -> Result<String, Refusal> {
        let upn = Upn::in_realm(name, self.realm());
        let upn = upn.map_err(|_| Refusal { code: "principal-malformed".into(), outage: false })?;
        match self.verify_password(&upn, password).await {
            Ok(verified) => Ok(verified.upn().to_string()),
            Err(denied) => Err(Refusal { code: denied.code().to_string(), outage: denied.is_outage() }),
        }
    }
}

struct Site {
    broker: Broker,
    grants: Arc<Mutex<HashMap<String, latchkey_broker::Grants>>>,
    _server: smol::Task<()>,
    kdc: Kdc,
}

const MONITOR: (&str, &str) = ("op1monitor/Test", "monitors secret");
const READER: (&str, &str) = ("reader", "readers secret");

impl Site {
    fn start(options: &[(&str, &str)]) -> Option<Self> {
        let kdc = Kdc::start_or_skip()?;
        let broker = Broker::ready(options)?;
        for (name, password) in [MONITOR, READER, ("nobody", "no rights")] {
            kdc.add(name, password);
        }
        let helper = helper();
        let kerberos = Kerberos::new(Settings {
            helper,
            krb5_config: Some(kdc.krb5_config().to_owned()),
            keytab: kdc.keytab(&["HTTP/localhost"]),
            service: Upn::in_realm("HTTP/localhost", &REALM.parse().unwrap()).unwrap(),
            replay_cache: kdc.path("replays"),
            helpers: 2,
            deadline: Duration::from_secs(10),
            waiting: 16,
        });
        let monitor = grants(&[("spBv1.0/G/NDATA/Monitor", "w"), ("spBv1.0/G/NCMD/Monitor", "r")]);
        let others = grants(&[("spBv1.0/#", "r"), ("spBv1.0/G/NCMD/+", "w"), ("spBv1.0/G/STATE/#", "rs")]);
        let all = [(MONITOR.0, monitor), (READER.0, others), ("nobody", grants(&[]))];
        let all = all.map(|(name, grants)| (format!("{name}@{REALM}"), grants)).into();
        let grants = Arc::new(Mutex::new(all));
        let serving = serve(&broker.socket(), Permissions { verify: kerberos, grants: grants.clone() });
        Some(Self { broker, grants, _server: serving, kdc })
    }
}

fn helper() -> std::path::PathBuf {
    latchkey_test_programs::of_package("latchkey-kerberos-helper", "latchkey-kerberos-helper").unwrap()
}

#[test]
fn a_client_does_what_it_is_granted_and_nothing_else() {
    let Some(site) = Site::start(&[]) else { return };
    let mut reader = site.broker.subscribe(READER, "reader", "spBv1.0/#");
    assert!(reader.granted, "{:?}", reader.seen);
    let sent = site.broker.publish(Some(MONITOR), "spBv1.0/G/NDATA/Other", "forged");
    assert!(String::from_utf8_lossy(&sent.stderr).contains("Not authorized"), "{sent:?}");
    let sent = site.broker.publish(Some(MONITOR), "spBv1.0/G/NDATA/Monitor", "data");
    assert!(sent.status.success(), "{sent:?}");
    // The first that comes is the second that was sent: the forged one never does.
    assert_eq!(reader.message(), "got spBv1.0/G/NDATA/Monitor data");
    for filter in
        ["spBv1.0/+/NCMD/Monitor", "#", "$SYS/#", "$share/g/spBv1.0/G/NCMD/Monitor", "spBv1.0/G/NDATA/Monitor"]
    {
        assert!(!site.broker.subscribe(MONITOR, "monitor", filter).granted, "{filter}");
    }
    assert!(site.broker.subscribe(MONITOR, "monitor", "spBv1.0/G/NCMD/Monitor").granted);
    assert!(site.broker.subscribe(READER, "sharer", "$share/g/spBv1.0/G/STATE/+").granted);
    assert!(!site.broker.subscribe(("nobody", "no rights"), "nobody", "a").granted);
}

#[test]
fn a_will_is_published_where_its_client_might_and_nowhere_else() {
    let Some(site) = Site::start(&[]) else { return };
    let mut reader = site.broker.subscribe(READER, "reader", "spBv1.0/#");
    for will in [("spBv1.0/G/NDATA/Other", "forged"), ("spBv1.0/G/NDATA/Monitor", "gone")] {
        let mortal = site.broker.subscribe_with_will(MONITOR, "spBv1.0/G/NCMD/Monitor", will);
        assert!(mortal.granted);
        // Killed: it says no farewell.
        drop(mortal);
    }
    assert_eq!(reader.message(), "got spBv1.0/G/NDATA/Monitor gone");
}

#[test]
fn wrong_passwords_and_clients_without_a_name_are_refused() {
    let Some(site) = Site::start(&[]) else { return };
    for user in
        [None, Some((MONITOR.0, "wrong")), Some(("unknown", "x")), Some(("*/admin", "x")), Some((MONITOR.0, ""))]
    {
        let sent = site.broker.publish(user, "spBv1.0/G/NDATA/Monitor", "data");
        assert!(!sent.status.success(), "{user:?} {sent:?}");
    }
    // After some failures the KDC is not asked any more, and the right password of that name and address waits.
    for _ in 0..3 {
        site.broker.publish(Some((MONITOR.0, "wrong")), "spBv1.0/G/NDATA/Monitor", "data");
    }
    site.broker.says("broker-too-many-failures");
    // Others do not.
    assert!(site.broker.publish(Some(READER), "spBv1.0/G/NCMD/x", "command").status.success());
}

#[test]
fn clients_come_back_from_memory_while_the_kdc_is_away_and_new_ones_do_not() {
    let Some(mut site) = Site::start(&[]) else { return };
    let publish = |site: &Site, user| site.broker.publish(Some(user), "spBv1.0/G/NCMD/x", "x").status.success();
    assert!(publish(&site, READER));
    site.kdc.stop_kdc();
    assert!(publish(&site, READER));
    assert!(!publish(&site, MONITOR));
    site.broker.says("kerberos-kdc-unreachable");
    site.kdc.start_kdc();
    assert!(site.broker.publish(Some(MONITOR), "spBv1.0/G/NDATA/Monitor", "x").status.success());
}

#[test]
fn a_socket_that_is_gone_or_hangs_refuses_clients_within_the_deadline() {
    let Some(broker) = Broker::ready(&[("latchkey_deadline_ms", "500")]) else { return };
    assert!(!broker.publish(Some(MONITOR), "a", "b").status.success());
    broker.says("the auth service at");
    // One that takes questions and answers none.
    let _listener = std::os::unix::net::UnixListener::bind(broker.socket()).unwrap();
    latchkey_test_support::until("the pause after a failure to end", || {
        let began = Instant::now();
        assert!(!broker.publish(Some(MONITOR), "a", "b").status.success());
        (began.elapsed() >= Duration::from_millis(500)).then_some(())
    });
    let began = Instant::now();
    assert!(!broker.publish(Some(MONITOR), "a", "b").status.success());
    assert!(began.elapsed() < Duration::from_millis(500), "it is not asked again at once: {:?}", began.elapsed());
}

#[test]
fn rights_that_end_end_for_those_who_are_connected() {
    let Some(site) = Site::start(&[("latchkey_refresh_seconds", "1")]) else { return };
    let mut reader = site.broker.subscribe(READER, "reader", "spBv1.0/#");
    assert!(reader.granted);
    site.broker.publish(Some(MONITOR), "spBv1.0/G/NDATA/Monitor", "one");
    assert_eq!(reader.message(), "got spBv1.0/G/NDATA/Monitor one");
    site.grants.lock().unwrap().remove(&format!("reader@{REALM}"));
    site.broker.says("the rights of client reader have ended");
    site.broker.says("disconnected by administrative action");
    assert!(!site.broker.publish(Some(READER), "spBv1.0/G/NCMD/x", "command").status.success());
    site.broker.says("principal-unknown");
}

#[test]
fn rights_that_cannot_be_looked_at_again_are_void_after_a_while() {
    let options = [("latchkey_refresh_seconds", "1"), ("latchkey_stale_seconds", "2"), ("latchkey_deadline_ms", "200")];
    let Some(site) = Site::start(&options) else { return };
    let mut publisher = site.broker.publisher(MONITOR, "spBv1.0/G/NDATA/Monitor");
    publisher.send("one");
    site.broker.says("Sending PUBACK");
    let Site { broker, _server: server, kdc: _kdc, .. } = site;
    // The auth service is away; what the broker has must not last for ever.
    latchkey_test_support::block_on(server.cancel());
    std::fs::remove_file(broker.socket()).unwrap();
    latchkey_test_support::until("a message to be denied", || {
        publisher.send("again");
        broker.says("PUBLISH from").contains("Denied").then_some(())
    });
}

#[test]
fn without_its_options_the_broker_does_not_start() {
    for (options, text) in [
        (&[][..], "plugin_opt_latchkey_socket"),
        (&[("latchkey_socket", "relative.sock")][..], "begins with '/'"),
        (&[("latchkey_socket", "DIR/a"), ("latchkey_deadline_ms", "0")][..], "from 10 to 10000"),
        (&[("latchkey_socket", "DIR/a"), ("latchkey_sokket", "x")][..], "there is no plugin_opt_latchkey_sokket"),
    ] {
        let Some(broker) = Broker::start_or_skip(options) else { return };
        broker.says(text);
        let ended = broker.process.wait(latchkey_test_support::PATIENCE).expect("it ends");
        assert!(!ended.success());
    }
}
