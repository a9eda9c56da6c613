//! From a machine's evidence to the decision on it: `cargo bench -p latchkey-enrol-service --bench decisions`.
//!
//! A machine with a fake TPM, made of software keys, asks over one attested connection: TCP on loopback, TLS, the attested handshake,
//! gRPC, the decision, and what is noted of a machine that waits for the operator. Nobody else has a part in that. What is counted
//! is processor time of the *service's* process, all its threads, kernel included; what a machine is told is its own time, too.
//!
//! Then whole calls of machines that are invited, beside clusters that are made without a machine, at the same centre.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

#[path = "../../cluster-manager/tests/cluster_manager/served/rig/mod.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod centre;
#[path = "../tests/enrol_service/enrol/machine.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod machine;
#[path = "../tests/enrol_service/enrol/rig.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod rig;

use latchkey_api::v1::enrol_response::Outcome;
use latchkey_bench::{Bench, Clock, Figure, Quantity, memory_of, processor_time_of};
use machine::Machine;
use rig::{Rig, Service};
use serde_json::json;
use std::time::{Duration, Instant};

const WARM_UP: usize = 20;
const BATCHES: usize = 10;
const PER_BATCH: u8 = 20;
/// Clusters that machines enrol, and as many that somebody makes.
const CLUSTERS: usize = 20;

fn main() {
    let bench = Bench::from_args();
    let all = WARM_UP + BATCHES * usize::from(PER_BATCH) + CLUSTERS;
    let machines: Vec<Machine> = (0..all).map(numbered).collect();
    let mut rig = Rig::new(&machines.iter().collect::<Vec<_>>());
    rig.limits = json!({
        "threads": 1, "connections_per_minute": 10_000_000, "connection_burst": 10_000_000,
        "connections_per_minute_per_address": 10_000_000, "connection_burst_per_address": 10_000_000,
    });
    let service = rig.start();
    let process = service.process.id();
    let what = "memory of the enrol service, ready, bytes";
    bench.count(&Quantity::new("enrol-service/memory", what, memory_of(process).unwrap()));
    let (invited, machines) = machines.split_at(CLUSTERS);
    let (warm_up, measured) = machines.split_at(WARM_UP);
    decide(&service, warm_up);
    let (mut busy, mut told) = (Vec::new(), Vec::new());
    for machines in measured.chunks(PER_BATCH.into()) {
        let (before, begin) = (processor_time_of(process).unwrap(), Instant::now());
        decide(&service, machines);
        busy.push(processor_time_of(process).unwrap().saturating_sub(before));
        told.push(begin.elapsed());
    }
    let report = |id, what, clock, batches: &[Duration]| {
        bench.report(&Figure::from_batches(id, what, clock, PER_BATCH.into(), batches));
    };
    report("enrol-service/decision", "evidence to decision, the service's side", Clock::Processor, &busy);
    report("enrol-service/told", "the same, until the machine is told", Clock::Wall, &told);
    whole_calls(&bench, &rig, &service, invited);
}

/// Both in turn, so that what else this machine does meets both alike.
fn whole_calls(bench: &Bench, rig: &Rig, service: &Service, invited: &[Machine]) {
    let (mut enrolled, mut made) = (Vec::new(), Vec::new());
    for (number, machine) in invited.iter().enumerate() {
        let invitation = rig.invite(&format!("Enrolled_{number}"));
        let begin = Instant::now();
        assert!(matches!(service.enrol(machine, Some(&invitation)).unwrap(), Outcome::Enrolled(_)));
        enrolled.push(begin.elapsed());
        let begin = Instant::now();
        rig.centre.ready(&format!("Made_{number}"));
        made.push(begin.elapsed());
    }
    let what = "an invited machine's call, from its connection to its cluster's manifests";
    bench.report(&Figure::from_batches("enrol-service/call", what, Clock::Wall, 1, &enrolled));
    let what = "a cluster's configuration, written until the cluster is ready";
    bench.report(&Figure::from_batches("enrol-service/cluster-ready", what, Clock::Wall, 1, &made));
}

fn numbered(number: usize) -> Machine {
    let mut lock = [1; 32];
    lock[..8].copy_from_slice(&number.to_be_bytes());
    Machine::of_cluster(lock, number)
}

fn decide(service: &Service, machines: &[Machine]) {
    for machine in machines {
        assert!(matches!(service.enrol(machine, None).unwrap(), Outcome::Held(_)));
    }
}
