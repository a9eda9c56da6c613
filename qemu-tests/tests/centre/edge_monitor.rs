//! An edge's monitor at a real centre, with a real API server for its numbers, seen by a stock client of the centre's broker.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use latchkey_api_server_rig::is_built_or_skip;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::bootstrapped::{Bootstrapped, NAMESPACE};
use latchkey_qemu_tests::centre::broker::Listener;
use latchkey_qemu_tests::process::{Process, spawn};
use latchkey_sparkplug::{Payload, Value};
use latchkey_test_support::{Lines, until};

const NBIRTH: &str = "spBv1.0/ACME-Nord/NBIRTH/Monitor";
const NDEATH: &str = "spBv1.0/ACME-Nord/NDEATH/Monitor";
/// The centre's other services hold nobody's rights for longer once they cannot be looked at again.
const MINUTE: Duration = Duration::from_mins(1);

/// The program, killed when dropped.
struct Monitor {
    lines: Lines,
    process: Process,
}

impl Monitor {
    fn start(edge: &Bootstrapped) -> Self {
        let password = edge.mounted("op1monitor", "password").unwrap();
        let mut command = edge.centre.monitoring(&edge.edge, &password).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        Self { lines, process: Process::watch(child).unwrap() }
    }

    fn says(&self, texts: &[&str]) {
        let mut seen = Vec::new();
        let found =
            self.lines.find(&format!("{texts:?}"), &mut seen, |line| texts.iter().all(|text| line.contains(text)));
        found.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")));
    }
}

fn started(name: &str) -> Bootstrapped {
    let mut edge = Bootstrapped::at(Centre::started(name).unwrap(), "Nord").unwrap();
    edge.centre.reader().unwrap();
    edge.start_operator().unwrap();
    edge.key("monitor", &edge.of_chart("monitor").unwrap());
    edge.reaches("monitor", "Ready");
    edge
}

/// The next message is of this topic and connection.
fn hears(listener: &Listener, wanted: &str, number: u64) {
    let (topic, bytes) = listener.message().unwrap();
    let payload = Payload::decode(&bytes).unwrap();
    let told = payload.metric("bdSeq").and_then(|metric| metric.value.clone());
    assert_eq!((topic.as_str(), told), (wanted, Some(Value::UInt64(number))), "{payload:?}");
    assert!(payload.timestamp.is_some());
}

fn number_kept(edge: &Bootstrapped) -> String {
    let kept = edge.admin().get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/edge-monitor")).granted();
    kept["data"]["bdSeq"].as_str().unwrap().to_owned()
}

#[test]
fn a_monitor_that_is_killed_and_a_centre_that_is_away_are_told_of_by_birth_and_death() {
    if !is_built_or_skip() {
        return;
    }
    let mut edge = started("edge-monitor");
    let listener = edge.centre.listen().unwrap();
    let monitor = Monitor::start(&edge);
    hears(&listener, NBIRTH, 0);
    assert_eq!(number_kept(&edge), "0");
    // SIGKILL: the broker says what it was told to say.
    monitor.process.kill();
    hears(&listener, NDEATH, 0);
    drop(monitor);
    let monitor = Monitor::start(&edge);
    hears(&listener, NBIRTH, 1);
    assert_eq!(number_kept(&edge), "1");
    drop(listener);

    // A centre ends with each of its processes, the broker too.
    monitor.says(&["Born", "number=1"]);
    let broker = edge.centre.child("mosquitto").unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(broker.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    assert!(!edge.centre.ended().unwrap().success());
    edge.centre.start().unwrap();
    let back = Instant::now();
    monitor.says(&["Born", "number=2"]);
    eprintln!("born {:?} after the centre was back", back.elapsed());
    assert_eq!(number_kept(&edge), "2");
    let listener = edge.centre.listen().unwrap();
    monitor.process.kill();
    hears(&listener, NDEATH, 2);
}

#[test]
fn the_broker_ends_connections_of_a_cluster_that_is_decommissioned() {
    if !is_built_or_skip() {
        return;
    }
    let edge = started("edge-monitor-end");
    let password = String::from_utf8(edge.held("op1monitor", "password").unwrap()).unwrap();
    let account = ("op1monitor/Nord", password.as_str());
    // Our monitor leaves by itself, as soon as it hears of it. This one has its account, and stays.
    let stays = edge.centre.subscribe(account, "spBv1.0/ACME-Nord/NCMD/Monitor").unwrap();
    assert!(stays.is_some());
    edge.centre.reported(&["delete", "Nord"]).unwrap();
    edge.centre.reaches(&edge.edge.cluster, "deleted");
    edge.centre.reported(&["decommission", "Nord"]).unwrap();
    edge.centre.reaches(&edge.edge.cluster, "decommissioned");
    let begin = Instant::now();
    let log = edge.centre.layout.log("mosquitto");
    let is_it = |line: &str| line.contains(account.0) && line.contains("disconnected by administrative action");
    until("the broker to end the connection", || fs::read_to_string(&log).unwrap().lines().any(is_it).then_some(()));
    let taken = begin.elapsed();
    eprintln!("ended {taken:?} after the cluster was decommissioned");
    assert!(taken < MINUTE, "{taken:?}");
    assert!(edge.centre.subscribe(account, "spBv1.0/ACME-Nord/NCMD/Monitor").unwrap().is_none());
}
