//! From power-on to a node that is Ready, beside kubeadm as people type it: `./dev e2e bench-kubernetes`.
//!
//! Both run in the same image and machine, up to the cluster step, where one calls `kubeadm init` and `kubeadm join` with the
//! flags that people give, and neither closes what kubeadm leaves open, nor asks for records or approval. One machine after the
//! other; a control plane has its worker beside it. Ready is what the node's own record says, in whole seconds of its clock. It
//! is the machines' time only if nothing else runs here.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

use std::time::{Duration, SystemTime};

use latchkey_bench::{Bench, Clock, Figure};
use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{PodNetwork, Site};

fn main() {
    let bench = Bench::from_args();
    let typed = times(&Site::typed("bench-typed").unwrap(), "directory");
    let ours = times(&Site::new("bench-kubernetes", PodNetwork::Bridge, false).unwrap(), "kubernetes");
    let what = ["a control plane that is Ready", "a worker that is Ready"];
    for ((name, what), (typed, ours)) in ["control-plane", "worker"].iter().zip(what).zip(typed.into_iter().zip(ours)) {
        for (how, of, time) in [("typed", "kubeadm as people type it", typed), ("latchkey", "Latchkey", ours)] {
            let (id, what) = (format!("kubernetes/{name}-{how}"), format!("power-on to {what}: {of}"));
            bench.report(&Figure::from_batches(&id, &what, Clock::Wall, 1, &[time]));
        }
        eprintln!("{name}: {:.2} times what kubeadm takes", ours.as_secs_f64() / typed.as_secs_f64());
    }
}

/// Power-on to Ready: of the first control plane, and of a worker.
fn times(site: &Site, store: &str) -> [Duration; 2] {
    let since = |node: &str, power_on: SystemTime| {
        site.ready(node, "").unwrap();
        site.ready_at(node).unwrap().duration_since(power_on).unwrap()
    };
    let machine = site.control_plane(1).unwrap();
    let power_on = SystemTime::now();
    let first = machine.start().unwrap();
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, store).unwrap();
    let control_plane = since("node-1", power_on);

    if store == "kubernetes" {
        let_workers_in(site);
    }
    let _services = site.fleet.services().unwrap();
    let machine = site.worker(2).unwrap();
    let power_on = SystemTime::now();
    let second = machine.start().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    [control_plane, since("node-2", power_on)]
}

/// Nobody is to be waited for who admits the worker: in a directory the tests' rules let workers in, in the API server `latchkey init`
/// wrote its own.
fn let_workers_in(site: &Site) {
    let rules = r#"{"version": 1, "pinned": [], "default": {"role": "worker", "name": "as-requested", "on_new_disk": "admit"}}"#;
    let patch = serde_json::json!({ "data": { "enrolment.json": rules } }).to_string();
    let map =
        ["patch", "configmap", "latchkey-enrolment", "--namespace", "latchkey", "--type", "merge", "--patch", &patch];
    site.ask(&map).unwrap();
}
