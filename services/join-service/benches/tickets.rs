//! Complete attested joins per second and core, and decisions per second: `cargo bench -p latchkey-join-service`.
//!
//! A join is all of it: TCP on loopback, TLS, the attested handshake, gRPC, decision, keys (derived in the service), the
//! record written and made durable in the cluster folder, and the ticket. The other side is a machine with a fake TPM, made of
//! software keys, in a process of its own; what is counted is processor time of the *service's* process, all its threads,
//! kernel included. The cluster folder is on /dev/shm where there is one, so that no disk is measured.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

#[path = "../tests/service/rig.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod rig;

use latchkey_cluster_folder::Enrolment;
use latchkey_join_service::decision::{Ask, Damage, JoinAsk, Now, State};
use rig::{Machine, Rig, Service};
use serde_json::json;
use std::process::Child;
use std::time::{Duration, Instant};

const WARM_UP: usize = 50;
const JOINS: usize = 1500;

fn main() {
    decisions();
    joins();
}

fn joins() {
    let machines: Vec<Machine> = (0..JOINS + WARM_UP).map(|_| Machine::new()).collect();
    let trusted: Vec<&Machine> = machines.iter().collect();
    let mut rig = Rig::new(&trusted);
    rig.config["limits"] = json!({
        "threads": 1, "connections_per_minute": 10_000_000, "connection_burst": 10_000_000,
        "connections_per_minute_per_address": 10_000_000, "connection_burst_per_address": 10_000_000,
    });
    let service = rig.start_logging_to(std::fs::File::create(rig.path("log")).unwrap().into());
    let (warm_up, measured) = machines.split_at(WARM_UP);
    join_all(&service, warm_up, 0);
    let (begun, before) = (Instant::now(), processor_time(&service.process));
    join_all(&service, measured, WARM_UP);
    let (wall, busy) = (begun.elapsed(), processor_time(&service.process).saturating_sub(before));
    report("complete first joins, record written", measured.len(), busy);
    let before = processor_time(&service.process);
    for (number, machine) in measured.iter().enumerate() {
        service.rejoin(machine, &disk(number + WARM_UP)).unwrap();
    }
    report("complete rejoins", measured.len(), processor_time(&service.process).saturating_sub(before));
    println!("(joins one after another took {wall:.1?}, both sides and waiting included)");
}

fn join_all(service: &Service, machines: &[Machine], first: usize) {
    for (number, machine) in machines.iter().enumerate() {
        let number = number + first;
        service.join(machine, &disk(number), &format!("worker-{number}")).unwrap();
    }
}

fn disk(number: usize) -> String {
    format!("0a0a0a0a-0000-4000-8000-{number:012}")
}

fn report(what: &str, count: usize, busy: Duration) {
    let each = busy / u32::try_from(count).unwrap();
    let per_second = 1.0 / each.as_secs_f64();
    println!("{what:<40} {per_second:>8.0} /s and core {each:>10.1?} each, {count} measured");
}

/// Time on processors of all threads of the process: the first field of `schedstat` (proc(5)), nanoseconds.
fn processor_time(process: &Child) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

/// The decision alone, on a cluster of 10 000 nodes.
fn decisions() {
    let ek = |number: u32| latchkey_attestation::EkDigest::from_hex(&format!("{number:064x}")).unwrap();
    let now = Now { unix: 1_800_000_000, uptime: Duration::from_secs(1) };
    let rules = Enrolment::workers_and([]);
    let mut state = State::new([], Damage::new(), now);
    let begun = Instant::now();
    for number in 1..=10_000 {
        let ask =
            JoinAsk { disk: disk(number as usize).parse().unwrap(), name: format!("worker-{number}"), role: None };
        let admitted = state.admit(&rules, ek(number), Ask::Join(ask), now).unwrap();
        let plan = state.conclude(&rules, &admitted, 1, now).unwrap();
        state.commit(&admitted, &plan, now);
    }
    report("decisions, 0 to 10 000 nodes", 10_000, begun.elapsed());
}
