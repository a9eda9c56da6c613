//! Kubernetes goes from one minor version to the next on real machines: a control plane, then a worker, one after the other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{PodNetwork, Site};
use latchkey_qemu_tests::osimage::OsImage;
use latchkey_qemu_tests::vm::Vm;

/// A node that goes to another release, on a machine that has another to run.
const NODE: Duration = Duration::from_mins(45);
/// What the operator looks at: name, kubelet, whether Ready, whether cordoned and by whom.
const NODES: &str = r#"jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}{.spec.unschedulable}{.metadata.annotations.latchkey\.dev/upgrade}{"\n"}{end}"#;

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

fn nodes(site: &Site) -> String {
    site.ask(&["get", "nodes", "--output", NODES]).unwrap()
}

/// The rules that let any token's holder be a node, which a kubeadm that upgrades would make again.
fn doors_are_closed(site: &Site) {
    for binding in ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"] {
        let error = site.ask(&["get", "clusterrolebinding", binding]).unwrap_err().to_string();
        assert!(error.contains("NotFound"), "{binding}: {error}");
    }
    assert_eq!(site.tokens().unwrap(), "");
}

/// How machines come to the next release: by another image, or by the list that the cluster names, with the image that they have.
enum Way {
    Image(OsImage),
    Components([String; 4]),
}

impl Way {
    fn restart(&self, node: &mut Vm) {
        match self {
            Self::Image(next) => node.restart_with(next.boot()),
            Self::Components(_) => node.restart(),
        }
        .unwrap();
    }

    /// What the commands are told besides.
    fn named(&self) -> Vec<&str> {
        match self {
            Self::Image(_) => Vec::new(),
            Self::Components(named) => named.iter().map(String::as_str).collect(),
        }
    }
}

#[test]
#[ignore = "builds Kubernetes twice, once, with Go, and a Debian with it; ./dev e2e upgrade-kubernetes"]
fn a_cluster_goes_to_the_next_minor_version_stops_where_a_machine_is_not_restarted_and_goes_on() {
    let site = Site::new("upgrade-kubernetes", PodNetwork::Flannel, false).unwrap();
    let next = site.next_image(PodNetwork::Flannel).unwrap();
    goes_to_the_next(&site, &Way::Image(next));
}

#[test]
#[ignore = "builds Kubernetes twice, once, with Go, and a Debian for it; ./dev e2e upgrade-components"]
fn machines_whose_image_has_no_kubernetes_go_to_the_next_minor_version_by_its_components() {
    let site = Site::with_components_fetched("upgrade-components", PodNetwork::Flannel).unwrap();
    let next = site.next_components().unwrap();
    goes_to_the_next(&site, &Way::Components(next));
}

fn goes_to_the_next(site: &Site, way: &Way) {
    let power_on = Instant::now();
    let mut first = site.control_plane(1).unwrap().start().unwrap();
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, "kubernetes").unwrap();
    site.install_flannel().unwrap();
    let first_boot = site.ready("node-1", "").unwrap();
    seconds("node-1: power-on to Ready", power_on);
    let _services = site.fleet.services_that_hold().unwrap();
    site.serves("node-1").unwrap();
    let mut second = site.worker(2).unwrap().start().unwrap();
    second.expect("enrolment-held", STEP).unwrap();
    site.fleet.admit(&second).unwrap().success("node admit").unwrap();
    // It may have to get Kubernetes first.
    second.expect(MEMBER, NODE).unwrap();
    let second_boot = site.ready("node-2", "").unwrap();
    site.serves("node-2").unwrap();
    site.keep_web().unwrap();
    assert_eq!(nodes(site), "node-1 v1.34.4 True\nnode-2 v1.34.4 True\n");
    seconds("both: power-on to a pod on node-2", power_on);

    let begun = Instant::now();
    let program = site.restart_program().unwrap();
    let upgrade = site.upgrade(&[&["execute", "--kubernetes", "1.35"], &way.named()[..]].concat(), &program).unwrap();
    upgrade.console().expect("to boot: node-1 (control-plane) with 1.35", NODE).unwrap();
    way.restart(&mut first);
    program.answer("node-1", "done").unwrap();
    // Its API server is away with it: the join service lets it have its disk by what it remembers of the cluster's records.
    first.expect(MEMBER, NODE).unwrap();
    site.ready("node-1", &first_boot).unwrap();
    upgrade.console().expect("node-1 (control-plane) from v1.34.4 to v1.35.4", NODE).unwrap();
    seconds("node-1: upgraded, with its pods' leaving", begun);

    // The operator's program cannot restart the worker: the command ends there, and says so. The cluster runs with both versions.
    upgrade.console().expect("to boot: node-2 (worker) with 1.35", NODE).unwrap();
    program.answer("node-2", "nobody is there").unwrap();
    let said = upgrade.console().clone();
    assert!(!upgrade.wait(STEP).unwrap().success());
    assert!(said.contains("restart-failed") && said.contains("nobody is there"), "{}", said.text());
    assert_eq!(nodes(site), "node-1 v1.35.4 True\nnode-2 v1.34.4 Truetrue1.35\n");

    let begun = Instant::now();
    let upgrade = site.upgrade(&[&["resume"], &way.named()[..]].concat(), &program).unwrap();
    upgrade.console().expect("to boot: node-2 (worker) with 1.35", NODE).unwrap();
    way.restart(&mut second);
    program.answer("node-2", "done").unwrap();
    second.expect(MEMBER, NODE).unwrap();
    site.ready("node-2", &second_boot).unwrap();
    let said = upgrade.console().clone();
    assert!(upgrade.wait(NODE).unwrap().success(), "{}", said.text());
    seconds("node-2: upgraded", begun);

    assert_eq!(nodes(site), "node-1 v1.35.4 True\nnode-2 v1.35.4 True\n");
    site.asked("asker").unwrap();
    seconds("node-2: upgraded, to an answer of its pod", begun);
    let cluster =
        site.ask(&["get", "configmap", "kubeadm-config", "--namespace=kube-system", "--output=yaml"]).unwrap();
    assert!(cluster.contains("kubernetesVersion: v1.35.4"), "{cluster}");
    doors_are_closed(site);
    println!("{}", site.ask(&["get", "nodes,pods", "-A", "-o", "wide"]).unwrap());
    for node in [&first, &second] {
        assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
    }

    // There is nothing to go on with any more.
    let upgrade = site.upgrade(&[&["resume"], &way.named()[..]].concat(), &program).unwrap();
    let said = upgrade.console().clone();
    assert!(!upgrade.wait(STEP).unwrap().success());
    assert!(said.contains("no-upgrade-under-way"), "{}", said.text());
}
