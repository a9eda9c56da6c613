//! An edge at a real centre: `cargo bench -p latchkey-qemu-tests --bench edge`.
//!
//! The programs are those that ship, with a real KDC, a real broker and TLS; etcd and the API server run on this machine, too.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latchkey_bench::{Bench, Clock, Figure, Quantity, memory_of, peak_memory_of};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application;
use latchkey_factory_plus_client::ConfigDb;
use latchkey_factory_plus_client::notify::Watch;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::bootstrapped::Bootstrapped;
use latchkey_qemu_tests::process::Process;
use latchkey_test_support::{Lines, block_on, finish, spawn, within};
use serde_json::{Value, json};

/// Keys that are made, beside one session of stock kadmin that makes as many.
const KEYS: usize = 100;
/// How often.
const ROUNDS: usize = 5;
/// Machines of the edge, and changes of one of them.
const MACHINES: usize = 1000;
const CHANGES: usize = 200;
/// How often the broker goes, and comes back.
const OUTAGES: usize = 3;

fn main() {
    let bench = Bench::from_args();
    let programs = match build::centre_packaged() {
        Ok(programs) => programs,
        Err(why) => return eprintln!("left out: {why}"),
    };
    let mut redeemed = Vec::new();
    let mut last = None;
    for round in 0..ROUNDS {
        drop(last.take());
        match bootstrapped(&format!("bench-edge-{round}"), programs.clone()) {
            Ok(edge) => {
                redeemed.push(edge.redeemed);
                last = Some(edge);
            }
            Err(why) => return eprintln!("left out: {why}"),
        }
    }
    let what = "`krb-keys redeem`, from its start until both Secrets are there";
    bench.report(&Figure::from_batches("krb-keys/redeem", what, Clock::Wall, 1, &redeemed));
    let mut edge = last.unwrap();
    keys(&bench, &mut edge);
    edge.start_operator().unwrap();
    for role in ["sync", "monitor"] {
        edge.key(role, &edge.of_chart(role).unwrap());
        edge.reaches(role, "Ready");
    }
    machines(&bench, &edge);
    broker(&bench, &mut edge);
}

fn bootstrapped(name: &str, programs: PathBuf) -> Result<Bootstrapped, latchkey_qemu_tests::HarnessError> {
    let mut centre = Centre::prepared(name, false)?.with_programs(programs);
    centre.start()?;
    Bootstrapped::at(centre, "Nord")
}

/// Both in turn, so that what else this machine does meets both alike.
fn keys(bench: &Bench, edge: &mut Bootstrapped) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(by_operator(edge, round));
        theirs.push(by_kadmin(edge, round));
    }
    let what = "100 KerberosKeys that are there, from the operator's start until all are ready";
    bench.report(&Figure::from_batches("krb-keys/hundred", what, Clock::Wall, 1, &ours));
    let what = "100 keytabs by one session of stock kadmin";
    bench.report(&Figure::from_batches("kadmin/hundred", what, Clock::Wall, 1, &theirs));
}

fn by_operator(edge: &mut Bootstrapped, round: usize) -> Duration {
    edge.keys((0..KEYS).map(|number| {
        let name = format!("r{round}n{number}");
        let spec =
            json!({ "type": "Random", "principal": format!("nd1/Nord/{name}"), "secret": format!("{name}/keytab") });
        (name, spec)
    }));
    let begin = Instant::now();
    edge.start_operator().unwrap();
    edge.all_reach(KEYS, "Ready");
    let taken = begin.elapsed();
    let name = format!("r{round}n{}", KEYS - 1);
    assert!(edge.serves(&name, "keytab", &format!("nd1/Nord/{name}")).unwrap());
    // The next round shall have no others to look at.
    edge.remove_all();
    edge.stop_operator();
    taken
}

fn by_kadmin(edge: &Bootstrapped, round: usize) -> Duration {
    let file = |number: usize| edge.centre.run.file(&format!("r{round}k{number}.keytab"));
    let queries = (0..KEYS).map(|number| {
        let name = format!("nd1/Nord/r{round}k{number}");
        format!("addprinc -randkey {name}\nktadd -k {} {name}\n", file(number).display())
    });
    let queries: String = queries.collect();
    let mut kadmin = Command::new("kadmin");
    kadmin.args(["-r", edge.centre.parameters.realm.as_str(), "-k", "-t"]).arg(edge.centre.run.file("own.keytab"));
    kadmin.args(["-p", "op1krbkeys/Nord"]).env("KRB5_CONFIG", edge.centre.layout.krb5_conf());
    kadmin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = spawn(kadmin).unwrap();
    child.stdin.take().unwrap().write_all(queries.as_bytes()).unwrap();
    let done = finish("kadmin", child);
    let taken = begin.elapsed();
    assert!(file(KEYS - 1).exists(), "{}", String::from_utf8_lossy(&done.stderr));
    taken
}

/// A program that is killed when it is dropped, and what it logs.
fn running(mut command: Command) -> (Process, Lines) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = spawn(command).unwrap();
    let lines = Lines::of(child.stderr.take().unwrap());
    (Process::watch(child).unwrap(), lines)
}

/// What the centre is told of the edge's machines.
struct Told(Watch);

impl Told {
    fn until(&mut self, what: &str, look: impl Fn(&Value) -> bool) {
        block_on(within(what.to_owned(), async {
            while !self.0.reading().and_then(|reading| reading.body).is_some_and(|body| look(&body)) {
                self.0.changed().await;
            }
        }));
    }
}

/// From the change of a machine's Node until the centre's entry says so.
fn machines(bench: &Bench, edge: &Bootstrapped) {
    let cluster: Uuid = edge.edge.cluster.parse().unwrap();
    let client = edge.centre.client().unwrap();
    let mut told = Told(ConfigDb::of(&client).watch_entry(application::EDGE_CLUSTER_STATUS, cluster));
    let password = edge.mounted("op1sync", "password").unwrap();
    let (sync, _log) = running(edge.centre.syncing(&edge.edge, &password).unwrap());
    let kubelets = edge.kubelets();
    kubelets.node("machine-0000");
    let count = |status: &Value| status["hosts"].as_array().map_or(0, Vec::len);
    told.until("the first machine", |status| count(status) == 1);
    let what = "memory of Edge Sync with one machine, bytes";
    bench.count(&Quantity::new("edge-sync/memory", what, memory_of(sync.id()).unwrap()));
    for number in 1..MACHINES {
        kubelets.node(&format!("machine-{number:04}"));
    }
    told.until("all machines", |status| count(status) == MACHINES);
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let name = format!("machine-{:04}", (change * 7) % MACHINES);
        let begin = Instant::now();
        kubelets.say(&name, "False");
        told.until("the change", |status| {
            let mut hosts = status["hosts"].as_array().into_iter().flatten();
            hosts.any(|host| host["hostname"] == name && host["ready"] == false)
        });
        times.push(begin.elapsed());
    }
    let what = "a Node's change, of 1000, until the centre's entry has it";
    bench.report(&Figure::from_batches("edge-sync/change", what, Clock::Wall, 1, &times));
    times.sort_unstable();
    let slow = times.split_off(CHANGES * 99 / 100);
    let what = "the same, p99 of 200";
    bench.report(&Figure::from_batches("edge-sync/change-p99", what, Clock::Wall, 1, &slow[..1]));
    let what = "peak memory of Edge Sync with 1000 machines, bytes";
    bench.count(&Quantity::new("edge-sync/memory-thousand", what, peak_memory_of(sync.id()).unwrap()));
}

/// From the start of a centre that was away until the edge's monitor has said that it is born and the centre that it is there.
fn broker(bench: &Bench, edge: &mut Bootstrapped) {
    let password = edge.mounted("op1monitor", "password").unwrap();
    let (monitor, log) = running(edge.centre.monitoring(&edge.edge, &password).unwrap());
    let born = || log.find("a birth", &mut Vec::new(), |line| line.contains("Born")).unwrap();
    born();
    let what = "memory of Edge Monitor, bytes";
    bench.count(&Quantity::new("edge-monitor/memory", what, memory_of(monitor.id()).unwrap()));
    let mut times = Vec::new();
    for _ in 0..OUTAGES {
        edge.centre.kill().unwrap();
        // The broker is there before all of the centre is, and the monitor comes as soon as it is.
        let begin = Instant::now();
        edge.centre.start().unwrap();
        born();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let slowest = times.split_off(OUTAGES - 1);
    let what = "a centre that was away is started, until the edge's birth; the slowest of 3";
    bench.report(&Figure::from_batches("edge-monitor/birth-slowest", what, Clock::Wall, 1, &slowest));
}
