//! Tickets per second where records live in a real API server with etcd: `./dev e2e bench-tickets`.
//!
//! Everything runs on this machine and shares its processors: etcd, which writes through to the disk, the API server, the service
//! and the machines that ask, with fake TPMs made of software keys. Time is the clock's. The service has the rights that our
//! chart gives, and the chart's policies look at what it writes. A first join writes the record, makes a bootstrap token at
//! the same time, and hears of the record; a rejoin reads.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

#[path = "../tests/join_service/service/api_server.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests")]
mod api_server;
#[path = "../tests/join_service/service/rig/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests")]
mod rig;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use latchkey_api_server_rig::{ApiServer, program};
use latchkey_bench::{Bench, Clock, Figure, Quantity};
use latchkey_kubernetes_store::NAMESPACE;
use latchkey_test_support::until;
use rig::{Client, Machine, Rig};
use serde_json::{Value, json};

const WARM_UP: usize = 50;
const BATCHES: usize = 10;
const PER_BATCH: u16 = 100;
/// Machines that ask at the same time.
const AT_ONCE: usize = 32;
/// Recorded machines that all come at once, as after a power cut.
const STORM: usize = 500;
/// So long a machine of the storm goes on asking; who has no ticket by then is lost.
const PATIENCE: Duration = Duration::from_mins(2);
/// The join service, as the chart's values call it.
const SERVICE: &str = "latchkey:join-service";

fn main() {
    let bench = Bench::from_args();
    let machines: Vec<Machine> = (0..WARM_UP + BATCHES * usize::from(PER_BATCH)).map(|_| Machine::new()).collect();
    let mut rig = Rig::new(&machines.iter().collect::<Vec<_>>());
    // All machines come from one address, and one that has its ticket may not have gone when its next one comes.
    rig.config["limits"] = json!({
        "connections_per_address": 2 * AT_ONCE,
        "connections_per_minute": 10_000_000, "connection_burst": 10_000_000,
        "connections_per_minute_per_address": 10_000_000, "connection_burst_per_address": 10_000_000,
    });
    let server = ApiServer::start();
    let administrator = api_server::moved_into(&server, &mut rig);
    give_the_charts_rights(&server, &mut rig);
    let service = rig.start_logging_to(std::fs::File::create(rig.path("log")).unwrap().into());
    let client: Client = *service;

    let join =
        |number: usize| drop(client.join(&machines[number], &disk(number), &format!("worker-{number}")).unwrap());
    each(0..WARM_UP, AT_ONCE, join);
    let batches = in_batches(join);
    let what = "a first join with records in an API server, 32 machines at a time";
    bench.report(&Figure::from_batches("join-service/api-server-join", what, Clock::Wall, PER_BATCH.into(), &batches));

    // What it remembers of them is gone: it reads the API server first, and they come while it may still do so.
    drop(service);
    let service = rig.start_logging_to(std::fs::File::create(rig.path("log-of-storm")).unwrap().into());
    let client: Client = *service;
    let (refused, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    each(0..STORM, STORM, |number| {
        while client.rejoin(&machines[number], &disk(number)).is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
            if begun.elapsed() > PATIENCE {
                lost.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    });
    let took = begun.elapsed();
    let what = "500 recorded machines that come at once, until each has its ticket";
    bench.report(&Figure::from_batches("join-service/api-server-storm", what, Clock::Wall, 1, &[took]));
    let counted = [("refused", "tries that the storm had to repeat", refused), ("lost", "machines that it lost", lost)];
    for (name, what, count) in counted {
        bench.count(&Quantity::new(&format!("join-service/api-server-storm-{name}"), what, count.into_inner()));
    }
    let nodes = administrator.get("/apis/latchkey.dev/v1alpha1/attestednodes").granted();
    let records = nodes["items"].as_array().unwrap();
    assert_eq!(records.len(), machines.len(), "a record of each machine");
    drop(service);
    alone(&bench, &server, &records[0]);
}

/// The part of a first ticket that is the API server's, without a service or a machine: a record like this one, and a token.
fn alone(bench: &Bench, server: &ApiServer, like: &Value) {
    let service = server.client(&server.user(SERVICE, None));
    let create = |number: usize| {
        let (machine, token) = (format!("{number:064x}"), format!("{number:06}"));
        let mut record = json!({
            "apiVersion": like["apiVersion"], "kind": like["kind"], "spec": like["spec"],
            "metadata": { "name": &machine, "annotations": { "latchkey.dev/provisional": "" } },
        });
        record["spec"]["ek_sha256"] = json!(machine);
        record["spec"]["name"] = json!(format!("alone-{number}"));
        record["spec"]["ticket"]["token"] = json!(token);
        service.post("/apis/latchkey.dev/v1alpha1/attestednodes", &record).granted();
        let fields = json!({
            "token-id": token, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": latchkey_kubernetes_store::tokens::GROUP, "expiration": "2099-01-01T00:00:00Z",
            "description": format!("a ticket of Latchkey for the node alone-{number}"),
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": fields,
            "metadata": { "name": format!("bootstrap-token-{token}") },
        });
        service.post("/api/v1/namespaces/kube-system/secrets", &secret).granted();
    };
    each(0..WARM_UP, AT_ONCE, create);
    let batches = in_batches(create);
    let what = "the API server alone: as many records and tokens, 32 at a time";
    bench.report(&Figure::from_batches("api-server/record-and-token", what, Clock::Wall, PER_BATCH.into(), &batches));
}

/// How long each batch took, behind those that warm up.
fn in_batches(ask: impl Fn(usize) + Sync) -> Vec<Duration> {
    let batches = (0..BATCHES).map(|batch| {
        let first = WARM_UP + batch * usize::from(PER_BATCH);
        let begun = Instant::now();
        each(first..first + usize::from(PER_BATCH), AT_ONCE, &ask);
        begun.elapsed()
    });
    batches.collect()
}

/// Our chart, by the stock helm, over the definitions that are there; from now on the service is who the chart says.
fn give_the_charts_rights(server: &ApiServer, rig: &mut Rig) {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/latchkey");
    let mut helm = Command::new(program("helm"));
    helm.args(["upgrade", "--install", "--take-ownership", "latchkey"]).arg(chart);
    helm.args(["--namespace", NAMESPACE, "--kubeconfig"]).arg(server.kubeconfig("helm", &server.admin()));
    let installed = latchkey_test_support::output(&mut helm).unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let service = server.client(&server.user(SERVICE, None));
    until("the service's rights to be in force", || {
        (service.get("/apis/latchkey.dev/v1alpha1/attestednodes").status() == 200).then_some(())
    });
    let kubeconfig = server.kubeconfig("join-service", &server.user(SERVICE, None));
    rig.config["store"] = json!({ "kubernetes": { "kubeconfig": kubeconfig } });
}

/// Calls for each number, so many at a time.
fn each(numbers: std::ops::Range<usize>, at_once: usize, ask: impl Fn(usize) + Sync) {
    let numbers: Vec<usize> = numbers.collect();
    std::thread::scope(|scope| {
        for part in numbers.chunks(numbers.len().div_ceil(at_once)) {
            let ask = &ask;
            scope.spawn(move || part.iter().copied().for_each(ask));
        }
    });
}

fn disk(number: usize) -> String {
    format!("0a0a0a0a-0000-4000-8000-{number:012}")
}
