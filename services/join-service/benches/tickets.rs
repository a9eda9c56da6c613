//! Complete attested joins per second and core, and decisions per second: `cargo bench -p latchkey-join-service --bench
//! tickets`.
//!
//! A join is all of it: TCP on loopback, TLS, the attested handshake, gRPC, decision, keys (derived in the service), the
//! record written and made durable in the cluster directory, and the ticket. The other side is a machine with a fake TPM, made of
//! software keys, in a process of its own, and several ask at once, so that the service is busy; what is counted is processor
//! time of the *service's* process, all its threads, kernel included. The cluster directory is on /dev/shm where there is one,
//! so that no disk is measured.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

#[path = "../tests/join_service/service/rig/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests")]
mod rig;

use latchkey_bench::{Bench, Clock, Figure, Quantity, memory_of, own_memory_of, processor_time_of};
use latchkey_cluster_store::{BootSeen, Denials, Enrolment, Recorded};
use latchkey_join_service::decision::{Ask, Damage, JoinAsk, Now, Rules, State};
use rig::{Client, Machine, Rig, Service};
use serde_json::json;
use std::process::Child;
use std::time::{Duration, Instant};

const WARM_UP: usize = 50;
const BATCHES: usize = 15;
const PER_BATCH: u16 = 100;
/// Machines that ask at the same time.
const AT_ONCE: usize = 8;
const JOINS: usize = BATCHES * PER_BATCH as usize;

fn main() {
    let bench = Bench::from_args();
    decisions(&bench);
    joins(&bench);
}

fn given(rules: &Enrolment) -> Rules {
    rules.clone().into()
}

fn joins(bench: &Bench) {
    let machines: Vec<Machine> = (0..JOINS + WARM_UP).map(|_| Machine::new()).collect();
    let trusted: Vec<&Machine> = machines.iter().collect();
    let mut rig = Rig::new(&trusted);
    rig.config["limits"] = json!({
        "threads": 1, "connections_per_minute": 10_000_000, "connection_burst": 10_000_000,
        "connections_per_minute_per_address": 10_000_000, "connection_burst_per_address": 10_000_000,
    });
    let service = rig.start_logging_to(std::fs::File::create(rig.path("log")).unwrap().into());
    memory(bench, &service.process, "memory", "memory of the service, ready, bytes");
    let own = own_memory_of(service.process.id()).unwrap();
    bench.count(&Quantity::new("join-service/own-memory", "the same without shared pages of files, bytes", own));
    let (warm_up, measured) = machines.split_at(WARM_UP);
    join_all(&service, warm_up, 0);
    let busy = |join: &mut dyn FnMut(&[Machine], usize)| -> Vec<Duration> {
        let batches = measured.chunks(PER_BATCH.into()).enumerate().map(|(batch, machines)| {
            let before = processor_time_of(service.process.id()).unwrap();
            join(machines, WARM_UP + batch * usize::from(PER_BATCH));
            processor_time_of(service.process.id()).unwrap().saturating_sub(before)
        });
        batches.collect()
    };
    let joined = busy(&mut |machines, first| join_all(&service, machines, first));
    report(bench, "join", "complete first join, record written, the service's side", &joined);
    let rejoined = busy(&mut |machines, first| {
        let service: Client = *service;
        each_at_once(machines, first, |number, machine| drop(service.rejoin(machine, &disk(number)).unwrap()));
    });
    memory(bench, &service.process, "memory-busy", "memory of the service after 1500 joins, bytes");
    report(bench, "rejoin", "complete rejoin, the service's side", &rejoined);
}

fn join_all(service: &Service, machines: &[Machine], first: usize) {
    let service: Client = **service;
    each_at_once(machines, first, |number, machine| {
        drop(service.join(machine, &disk(number), &format!("worker-{number}")).unwrap());
    });
}

fn each_at_once(machines: &[Machine], first: usize, ask: impl Fn(usize, &Machine) + Sync) {
    let part = machines.len().div_ceil(AT_ONCE);
    std::thread::scope(|scope| {
        for (place, machines) in machines.chunks(part).enumerate() {
            let (first, ask) = (first + place * part, &ask);
            scope.spawn(move || {
                for (number, machine) in machines.iter().enumerate() {
                    ask(first + number, machine);
                }
            });
        }
    });
}

fn disk(number: usize) -> String {
    format!("0a0a0a0a-0000-4000-8000-{number:012}")
}

fn report(bench: &Bench, id: &str, what: &str, batches: &[Duration]) {
    let id = format!("join-service/{id}");
    bench.report(&Figure::from_batches(&id, what, Clock::Processor, PER_BATCH.into(), batches));
}

/// Resident memory of the process now.
fn memory(bench: &Bench, process: &Child, id: &str, what: &str) {
    let memory = memory_of(process.id()).unwrap();
    bench.count(&Quantity::new(&format!("join-service/{id}"), what, memory));
}

/// The decision alone, while a cluster grows to 10 000 nodes.
fn decisions(bench: &Bench) {
    let ek = |number: u32| latchkey_attestation::EkDigest::from_hex(&format!("{number:064x}")).unwrap();
    let now = Now { unix: 1_800_000_000, uptime: Duration::from_secs(1) };
    let rules = Enrolment::workers_and([]);
    let mut state = State::new([], Damage::new(), now);
    let mut decide = |number: u32| {
        let ask =
            JoinAsk { disk: disk(number as usize).parse().unwrap(), name: format!("worker-{number}"), role: None };
        let admitted = state.admit(&given(&rules), ek(number), Ask::Join(ask), BootSeen::default(), now).unwrap();
        let not_denied = Denials::default().check(&ek(number), Instant::now()).unwrap();
        let plan = state.conclude(&given(&rules), &admitted, &not_denied, (1, None), now).unwrap();
        state.commit(&admitted, plan.record.map(Recorded::fake), now);
    };
    let batches: Vec<Duration> = (0..10_000 / u32::from(PER_BATCH))
        .map(|batch| {
            let before = latchkey_bench::processor_time();
            (1..=u32::from(PER_BATCH)).for_each(|number| decide(batch * u32::from(PER_BATCH) + number));
            latchkey_bench::processor_time().saturating_sub(before)
        })
        .collect();
    report(bench, "decision", "join decision alone, 0 to 10 000 nodes", &batches);
}
