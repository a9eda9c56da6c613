//! A real control plane on a node: kubeadm behind the agent, from power-on to a node that stock kubectl sees Ready.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use latchkey_qemu_tests::debian::{DebianRoot, Step};
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::program;
use latchkey_qemu_tests::operator::words;
use latchkey_qemu_tests::ports::Port;
use latchkey_qemu_tests::process::output;
use latchkey_qemu_tests::service::Service;
use latchkey_qemu_tests::vm::Vm;
use serde_json::json;

/// kubeadm asks for two processors and 1700 MB.
const PROCESSORS: u32 = 2;
const MEMORY: u32 = 2560;
const STATE_DISK: u64 = 8 << 30;
const API_SERVER: u16 = 6443;
/// Translated, on a machine that has other things to do, `latchkey init` takes minutes.
const INIT: Duration = Duration::from_mins(30);
/// What the system says once its API server answers, and what failed before.
const SHOW: &str = "
for unit in $(systemctl list-units --state=failed --plain --no-legend | cut -d ' ' -f 1); do echo OS failed unit $unit; done
until kubectl --kubeconfig /etc/kubernetes/kubelet.conf get --raw /readyz > /dev/null 2>&1; do sleep 1; done
echo OS api server is ready";
const API_IS_READY: &str = "OS api server is ready";
/// Asks without credentials: address, path.
const STRANGER: &str = "import http.client, ssl, sys
server = http.client.HTTPSConnection(sys.argv[1], context=ssl._create_unverified_context())
server.request('GET', sys.argv[2])
print(server.getresponse().status)";

/// A site whose machines carry Kubernetes, and kubectl with the kubeconfig that `latchkey init` brought.
struct Site(Fleet);

impl Site {
    fn new() -> Self {
        // The directories that last are those of kubeadm, kubelet, etcd and containerd unless the configuration says.
        let debian = Some(DebianRoot { systemd: json!({"state": {}}), step: Step::Kubeadm });
        let words = "latchkey.init=/lib/systemd/systemd";
        let plan = Plan { words, then: SHOW, debian, state_disk: Some(STATE_DISK), ..Plan::default() };
        Self(Fleet::planned("kubernetes", plan).unwrap())
    }

    fn kubectl(&self, node: &Vm, arguments: &[&str]) -> Command {
        let mut kubectl = Command::new(program("kubectl").unwrap());
        // The API server is behind a forwarded port: at an address that is in its certificate, and not in the kubeconfig.
        let server = format!("https://{}", node.address(API_SERVER).unwrap());
        kubectl.args(["--kubeconfig", &self.0.path("admin.conf"), "--server", &server]).args(arguments);
        kubectl
    }

    /// Waits until the API server's record of the node says that it is Ready, in a boot that is not `before`; says in which.
    fn ready(&self, node: &Vm, before: &str) -> String {
        let shown = r#"jsonpath=NODE {.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.bootID}{"\n"}"#;
        let watch = self.kubectl(node, &["get", "node", "node-1", "--watch", "-o", shown]);
        let watch = Service::spawn(self.0.run(), "kubectl-watch", watch).unwrap();
        let deadline = Instant::now() + STEP;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = watch.console().expect("NODE True ", left).unwrap().text;
            let boot = line.rsplit(' ').next().unwrap();
            if boot != before {
                return boot.to_owned();
            }
        }
    }

    /// `latchkey init` to its end.
    fn found(&self, first: &Vm) {
        let extra = ["--cert-san", "127.0.0.1", "--pod-cidr", "10.244.0.0/16"].map(str::to_owned);
        let arguments = [self.0.init_arguments(first), extra.to_vec()].concat();
        let init = self.0.cli_in_background("init", &words(&arguments)).unwrap();
        let console = init.console().clone();
        let status = init.wait(INIT).unwrap();
        assert!(status.success(), "{}", console.text());
        assert!(console.contains("[wait-control-plane]"), "kubeadm's phases are not shown: {}", console.text());
    }
}

/// What kubeadm leaves open is closed.
fn doors_are_closed(site: &Site, node: &Vm) {
    let refused = |arguments: &[&str], why: &str| {
        let error = output(&mut site.kubectl(node, arguments)).unwrap_err().to_string();
        assert!(error.contains(why), "{arguments:?}: {error}");
    };
    for binding in ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"] {
        refused(&["get", "clusterrolebinding", binding], "NotFound");
    }
    refused(&["--namespace", "kube-public", "get", "rolebinding", "kubeadm:bootstrap-signer-clusterinfo"], "NotFound");
    let tokens = ["--namespace", "kube-system", "get", "secrets", "--output", "name"];
    assert_eq!(output(&mut site.kubectl(node, &tokens)).unwrap(), "");

    // kubectl would ask for a name.
    let address = node.address(API_SERVER).unwrap().to_string();
    let stranger = |path: &str| output(Command::new("python3").args(["-c", STRANGER, &address, path])).unwrap();
    // Ready or not: a probe gets its answer.
    assert!(matches!(stranger("/readyz").trim(), "200" | "500"), "{}", stranger("/readyz"));
    for path in ["/version", "/api/v1/namespaces/kube-public/configmaps/cluster-info"] {
        assert_eq!(stranger(path).trim(), "401", "{path}");
    }
}

fn seconds(since: Instant) -> f32 {
    since.elapsed().as_secs_f32()
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e kubernetes"]
fn a_node_founds_a_cluster_is_ready_for_kubectl_and_comes_back_after_a_power_cut() {
    let site = Site::new();
    let machine = site.0.machine("node-1").unwrap().processors(PROCESSORS).memory(MEMORY);
    let machine = machine.forward(Port::choose().unwrap(), API_SERVER);
    let power_on = Instant::now();
    let mut node = machine.start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    site.found(&node);
    eprintln!("power-on to the end of init: {:.1} s", seconds(power_on));
    let kubeconfig = std::fs::metadata(site.0.path("admin.conf")).unwrap();
    assert_eq!(kubeconfig.permissions().mode() & 0o777, 0o600);
    let boot = site.ready(&node, "");
    eprintln!("power-on to Ready: {:.1} s", seconds(power_on));
    node.expect(MEMBER, STEP).unwrap();
    doors_are_closed(&site, &node);
    println!("{}", output(&mut site.kubectl(&node, &["get", "nodes,pods", "-A", "-o", "wide"])).unwrap());

    let _services = site.0.services().unwrap();
    node.restart().unwrap();
    let power_on = Instant::now();
    node.expect(MEMBER, STEP).unwrap();
    eprintln!("power-on to the end of stage 2, second boot: {:.1} s", seconds(power_on));
    node.expect(API_IS_READY, STEP).unwrap();
    eprintln!("power-on to the API server, second boot: {:.1} s", seconds(power_on));
    site.ready(&node, &boot);
    eprintln!("power-on to Ready, second boot: {:.1} s", seconds(power_on));
    assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
}
