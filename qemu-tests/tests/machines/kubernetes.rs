//! A real cluster of machines: kubeadm behind the agent, stock kubectl, pods that answer each other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Instant;

use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{API_IS_READY, API_SERVER, PodNetwork, Site};
use latchkey_qemu_tests::process::output;
use latchkey_qemu_tests::vm::Vm;

/// Asks without credentials: address, path.
const STRANGER: &str = "import http.client, ssl, sys
server = http.client.HTTPSConnection(sys.argv[1], context=ssl._create_unverified_context())
server.request('GET', sys.argv[2])
print(server.getresponse().status)";

/// What kubeadm leaves open is closed.
fn doors_are_closed(site: &Site, node: &Vm) {
    let refused = |arguments: &[&str], why: &str| {
        let error = site.ask(arguments).unwrap_err().to_string();
        assert!(error.contains(why), "{arguments:?}: {error}");
    };
    for binding in ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"] {
        refused(&["get", "clusterrolebinding", binding], "NotFound");
    }
    refused(&["--namespace", "kube-public", "get", "rolebinding", "kubeadm:bootstrap-signer-clusterinfo"], "NotFound");
    assert_eq!(site.tokens().unwrap(), "");

    // kubectl would ask for a name.
    let address = node.address(API_SERVER).unwrap().to_string();
    let stranger = |path: &str| output(Command::new("python3").args(["-c", STRANGER, &address, path])).unwrap();
    // Ready or not: a probe gets its answer.
    assert!(matches!(stranger("/readyz").trim(), "200" | "500"), "{}", stranger("/readyz"));
    for path in ["/version", "/api/v1/namespaces/kube-public/configmaps/cluster-info"] {
        assert_eq!(stranger(path).trim(), "401", "{path}");
    }
}

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

#[test]
#[ignore = "the other test does more; for times by themselves: ./dev e2e two-nodes"]
fn a_node_founds_a_cluster_is_ready_for_kubectl_and_comes_back_after_a_power_cut() {
    let site = Site::new("kubernetes", PodNetwork::Bridge, false).unwrap();
    let machine = site.control_plane(1).unwrap();
    let power_on = Instant::now();
    let mut node = machine.start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    let said = site.init(&node, "directory").unwrap();
    assert!(said.contains("[wait-control-plane]"), "kubeadm's phases are not shown: {said}");
    seconds("power-on to the end of init", power_on);
    let kubeconfig = std::fs::metadata(site.fleet.path("admin.conf")).unwrap();
    assert_eq!(kubeconfig.permissions().mode() & 0o777, 0o600);
    let boot = site.ready("node-1", "").unwrap();
    seconds("power-on to Ready", power_on);
    node.expect(MEMBER, STEP).unwrap();
    doors_are_closed(&site, &node);
    println!("{}", site.ask(&["get", "nodes,pods", "-A", "-o", "wide"]).unwrap());

    let _services = site.fleet.services().unwrap();
    node.restart().unwrap();
    let power_on = Instant::now();
    node.expect(MEMBER, STEP).unwrap();
    seconds("power-on to the end of stage 2, second boot", power_on);
    node.expect(API_IS_READY, STEP).unwrap();
    seconds("power-on to the API server, second boot", power_on);
    site.ready("node-1", &boot).unwrap();
    seconds("power-on to Ready, second boot", power_on);
    assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
}

#[test]
#[ignore = "a quarter of an hour, and Kubernetes built with Go; ./dev e2e two-nodes"]
fn a_worker_joins_by_its_evidence_serves_pods_comes_back_and_an_impostor_gets_nothing() {
    let site = Site::new("kubernetes-two", PodNetwork::Flannel, false).unwrap();
    let first = site.control_plane(1).unwrap();
    let power_on = Instant::now();
    let first = first.start().unwrap();
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, "kubernetes").unwrap();
    seconds("node-1: power-on to the end of init", power_on);
    site.install_flannel().unwrap();
    site.ready("node-1", "").unwrap();
    seconds("node-1: power-on to Ready, with flannel", power_on);

    // The services stay with the operator, who lets the machine in: it is the only word that he has to say.
    let services = site.fleet.services_that_hold().unwrap();
    site.serves("node-1").unwrap();
    let power_on = Instant::now();
    let mut second = site.worker(2).unwrap().start().unwrap();
    second.expect("enrolment-held", STEP).unwrap();
    site.fleet.admit(&second).unwrap().success("node admit").unwrap();
    second.expect(MEMBER, STEP).unwrap();
    seconds("node-2: power-on to the end of stage 2", power_on);
    let boot = site.ready("node-2", "").unwrap();
    seconds("node-2: power-on to Ready, with flannel", power_on);
    site.serves("node-2").unwrap();
    assert_eq!(site.tokens().unwrap(), "", "the ticket's token ends with the report");

    site.deploy_web().unwrap();
    let answer = site.asked("asker").unwrap();
    seconds("node-2: power-on to an answer across nodes", power_on);
    // Both kubelets are verified: logs of the first were read above.
    assert!(site.ask(&["logs", "web"]).unwrap().contains("serving"));
    let read = site.ask(&["exec", "web", "--", "busybox", "cat", "/tmp/index.html"]).unwrap();
    assert_eq!(read.trim(), answer);

    second.restart().unwrap();
    let power_on = Instant::now();
    second.expect(MEMBER, STEP).unwrap();
    seconds("node-2: power-on to the end of stage 2, second boot", power_on);
    site.ready("node-2", &boot).unwrap();
    seconds("node-2: power-on to Ready, second boot", power_on);
    assert!(!second.console().contains("no ticket yet"), "{}", second.console().text());
    site.asked("asker-again").unwrap();
    seconds("node-2: power-on to an answer across nodes, second boot", power_on);
    for node in [&first, &second] {
        assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
    }

    // One machine is the operator's and boots something else, one boots the image and is nobody's.
    let impostor = site.impostor("impostor").unwrap().start().unwrap();
    let stranger = site.fleet.machine("stranger").unwrap().start().unwrap();
    impostor.expect("no ticket yet: measurements-refused", STEP).unwrap();
    services.join.console().find(&["image-differs"], STEP).unwrap();
    stranger.expect("enrolment-held", STEP).unwrap();
    site.has_nothing_of("impostor").unwrap();
    site.has_nothing_of("stranger").unwrap();

    let listed = site.ask(&["get", "attestednodes"]).unwrap();
    println!("{}{listed}", site.ask(&["get", "nodes,pods", "-A", "-o", "wide"]).unwrap());
    for (node, role) in [("node-1", "control-plane"), ("node-2", "worker")] {
        assert!(listed.lines().any(|line| line.contains(node) && line.contains(role)), "{listed}");
    }
}
