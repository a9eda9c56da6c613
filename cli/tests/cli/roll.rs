//! `latchkey upgrade execute --kubernetes` and `latchkey upgrade resume`, with stock kubectl and a real API server. The machines are
//! objects, and the operator's program writes what they would say of themselves (`support/reimage.sh`).

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command};

use crate::support::cluster::Cluster;
use crate::support::command::{Ran, finish, start};
use latchkey_cluster_store::KubernetesFile;
use latchkey_cluster_store::objects::{CLUSTER_MAP, NAMESPACE};
use latchkey_kubernetes::{ComponentList, Table};
use latchkey_test_support::{Lines, until};
use serde_json::{Value, json};

const EXECUTE: [&str; 4] = ["upgrade", "execute", "--kubernetes", "1.35"];
const RESUME: [&str; 2] = ["upgrade", "resume"];
const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

struct Plant(Cluster);

impl Plant {
    /// Two control planes and two workers of 1.34, all well.
    fn new() -> Self {
        let cluster = Cluster::start();
        let kubectl = format!("#!/bin/sh\nexec {} --kubeconfig {} \"$@\"\n", cluster.kubectl, cluster.kubeconfig);
        fs::write(cluster.path("kubectl"), kubectl).unwrap();
        fs::set_permissions(cluster.path("kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/support/reimage.sh");
        symlink(program, cluster.path("reimage")).unwrap();
        let plant = Self(cluster);
        for name in ["cp-1", "cp-2"] {
            plant.node(name, &json!({"node-role.kubernetes.io/control-plane": ""}));
            for component in COMPONENTS {
                plant.pod(component, name);
            }
        }
        for name in ["w-1", "w-2"] {
            plant.node(name, &json!({}));
        }
        plant
    }

    fn node(&self, name: &str, labels: &Value) {
        self.0.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}));
        self.status("node", name, &json!({"nodeInfo": {"kubeletVersion": "v1.34.4", "bootID": "first"}}));
        self.is_ready("node", name, "True");
    }

    fn pod(&self, component: &str, node: &str) {
        let tag = if component == "etcd" { "3.6.5-0" } else { "v1.34.4" };
        let name = format!("{component}-{node}");
        self.0.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "kube-system", "labels": {"tier": "control-plane", "component": component},
                // As the kubelet shows a static pod.
                "annotations": {"kubernetes.io/config.mirror": "x"},
            },
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{"name": component, "image": format!("registry.k8s.io/{component}:{tag}")}],
            },
        }));
        self.is_ready("pod", &name, "True");
    }

    fn is_ready(&self, kind: &str, name: &str, status: &str) {
        self.status(kind, name, &json!({"conditions": [{"type": "Ready", "status": status}]}));
    }

    fn status(&self, kind: &str, name: &str, status: &Value) {
        let patch = format!("--patch={}", json!({ "status": status }));
        let words = ["patch", kind, name, "--namespace=kube-system", "--subresource=status", "--type=merge", &patch];
        self.0.kubectl(&words);
    }

    fn of_node(&self, name: &str, path: &str) -> String {
        self.0.kubectl(&["get", "node", name, &format!("--output=jsonpath={path}")])
    }

    fn is_cordoned(&self, name: &str) -> bool {
        self.of_node(name, "{.spec.unschedulable}") == "true"
    }

    fn mark(&self, name: &str) -> String {
        self.of_node(name, r"{.metadata.annotations.latchkey\.dev/upgrade}")
    }

    /// What the operator's program does with a machine.
    fn does(&self, node: &str, what: &str) {
        fs::write(self.0.path(&format!("{node}.does")), what).unwrap();
    }

    fn boots(&self, node: &str, role: &str) {
        let mut program = Command::new(self.0.path("reimage"));
        let ran = latchkey_test_support::output(program.args([node, role, "1.35"])).unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    fn lines(&self, file: &str) -> Vec<String> {
        fs::read_to_string(self.0.path(file)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn run(&self, command: &[&str], more: &[&str]) -> Ran {
        finish(self.start(command, more))
    }

    fn start(&self, command: &[&str], more: &[&str]) -> Child {
        let more = [&["--output", "json"], more].concat();
        start(self.0.directory.path(), &self.0.arguments(command, &more))
    }

    fn is_unchanged(&self) {
        for name in ["cp-1", "cp-2", "w-1", "w-2"] {
            assert!(!self.is_cordoned(name) && self.mark(name).is_empty(), "{name}");
        }
        assert_eq!((self.lines("restarted"), self.0.backups()), (Vec::<String>::new(), 0));
    }
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

fn because(ran: &Ran) -> String {
    ran.json()["error"]["because"].to_string()
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn control_planes_go_first_one_after_the_other_and_a_node_that_others_cordoned_stays_so() {
    let plant = Plant::new();
    plant.0.kubectl(&["cordon", "w-2"]);
    // Of what nodes without Kubernetes in their image get, its mirror stays.
    let mirror = "http://mirror.example";
    let list = ComponentList::make(&Table::built_in().unwrap(), "1.34".parse().unwrap(), Some(mirror)).unwrap();
    let mut file = KubernetesFile::new("10.0.0.1:6443", "1.34");
    file.component_list = Some(String::from_utf8(list).unwrap());
    plant.0.kubectl(&["create", "namespace", NAMESPACE]);
    plant.0.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE, "name": CLUSTER_MAP},
        "data": {"kubernetes.json": file.to_json()},
    }));

    let shown = plant.run(&EXECUTE, &["--dry-run"]).succeeded().json();
    let names: Vec<_> = shown["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["cp-1", "cp-2", "w-1", "w-2"]);
    assert_eq!(plant.0.backups(), 0);

    let ran = plant.run(&EXECUTE, &["--restart", "reimage"]).succeeded();
    let expected = ["cp-1 control-plane 1.35", "cp-2 control-plane 1.35", "w-1 worker 1.35", "w-2 worker 1.35"];
    assert_eq!(plant.lines("restarted"), expected);
    assert_eq!(plant.lines("seen"), ["cp-1 true 1.35", "cp-2 true 1.35", "w-1 true 1.35", "w-2 true "]);
    // Control planes that start hear of the next components, all others once those are done.
    let heard: Vec<_> =
        ["cp-1", "cp-2", "w-1", "w-2"].map(|name| plant.lines(&format!("{name}.heard")).concat()).to_vec();
    for (heard, (now, next)) in heard.iter().zip([("1.34", "1.35"), ("1.34", "1.35"), ("1.35", ""), ("1.35", "")]) {
        let file = KubernetesFile::parse(heard.as_bytes()).unwrap();
        let version = |list: &str| ComponentList::parse(list.as_bytes()).unwrap().release().version().to_string();
        assert_eq!(file.kubernetes_version, now);
        assert!(version(file.component_list.as_ref().unwrap()).starts_with(now));
        let goes_to = file.next.map_or_else(String::new, |file| {
            assert!(version(&file.component_list).starts_with(&file.kubernetes_version));
            file.kubernetes_version
        });
        assert_eq!(goes_to, next);
    }
    let report = ran.json();
    assert_eq!((&report["nodes"][0]["from"], &report["nodes"][0]["to"]), (&json!("v1.34.4"), &json!("v1.35.0")));
    for name in ["cp-1", "cp-2", "w-1"] {
        assert!(!plant.is_cordoned(name) && plant.mark(name).is_empty(), "{name}");
    }
    assert!(plant.is_cordoned("w-2"), "its operator cordoned it");
    assert_eq!((report["nodes"][3]["uncordoned"].clone(), plant.0.backups()), (json!(false), 1));

    let shown =
        ["get", "configmap", CLUSTER_MAP, "--namespace", NAMESPACE, "--output=jsonpath={.data.kubernetes\\.json}"];
    let file = KubernetesFile::parse(plant.0.kubectl(&shown).as_bytes()).unwrap();
    let list = ComponentList::parse(file.component_list.unwrap().as_bytes()).unwrap();
    list.expect("1.35".parse().unwrap()).unwrap();
    assert_eq!((&*file.kubernetes_version, list.mirror()), ("1.35", Some(mirror)));

    // Nothing is left.
    let again = plant.run(&EXECUTE, &["--restart", "reimage"]).succeeded().json();
    assert_eq!((again["nodes"].clone(), plant.lines("restarted").len()), (json!([]), 4));
    assert_eq!(code(&plant.run(&RESUME, &[]).failed(2)), "no-upgrade-under-way");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_node_that_does_not_come_back_stops_the_roll_and_resume_goes_on_there() {
    let plant = Plant::new();
    plant.does("cp-2", "fails");
    let ran = plant.run(&EXECUTE, &["--restart", "reimage"]).failed(1);
    assert_eq!(code(&ran), "restart-failed");
    let error = ran.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().starts_with("cp-2: "), "{error}");
    assert!(because(&ran).contains("no such machine: cp-2"), "{error}");
    assert!(plant.is_cordoned("cp-2") && plant.mark("cp-2") == "1.35");
    assert_eq!(code(&plant.run(&["upgrade", "execute", "--kubernetes", "1.34"], &[]).failed(2)), "upgrade-under-way");

    plant.does("cp-2", "never");
    let ran = plant.run(&RESUME, &["--restart", "reimage", "--wait", "2s"]).failed(1);
    assert_eq!(code(&ran), "node-not-upgraded");
    assert!(because(&ran).contains("its kubelet is v1.34.4") && because(&ran).contains("for 2 s"), "{}", because(&ran));

    plant.does("cp-2", "old");
    let ran = plant.run(&RESUME, &["--restart", "reimage"]).failed(1);
    assert_eq!(code(&ran), "node-not-upgraded");
    assert!(because(&ran).contains("it was restarted, and its kubelet is v1.34.4 again"), "{}", because(&ran));

    // Its operator mended it, and booted it; a worker fell ill meanwhile.
    plant.does("cp-2", "");
    plant.boots("cp-2", "control-plane");
    plant.is_ready("node", "w-2", "False");
    let ran = plant.run(&RESUME, &["--restart", "reimage", "--wait", "2s"]).failed(1);
    assert_eq!(code(&ran), "upgrade-not-ready");
    assert!(because(&ran).contains("node w-2: it is not ready"), "{}", because(&ran));
    // It may be so for a moment.
    let before = plant.lines("restarted").len();
    let mut resumed = plant.start(&RESUME, &["--restart", "reimage"]);
    let said = Lines::of(resumed.stderr.take().unwrap());
    let waits = said.find("the upgrade to wait", &mut Vec::new(), |line| line.contains("node w-2: it is not ready"));
    waits.expect("the upgrade waits");
    plant.is_ready("node", "w-2", "True");
    finish(resumed).succeeded();
    assert_eq!(plant.lines("restarted")[before..], ["w-1 worker 1.35", "w-2 worker 1.35"]);
    for name in ["cp-1", "cp-2", "w-1", "w-2"] {
        assert!(!plant.is_cordoned(name) && plant.mark(name).is_empty(), "{name}");
    }
}

/// As it was seen on machines: it answers before it has read who has which rights.
#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn an_api_server_that_starts_and_forbids_everything_is_waited_for() {
    let mut plant = Plant::new();
    let starting = plant.0.path("starting");
    let script = r#"#!/bin/sh
forbidden=$(dirname "$0")/forbidden
if [ "${*##* }" = nodes ] && [ -e "$forbidden" ]; then
    rm "$forbidden"
    echo 'Error from server (Forbidden): nodes is forbidden: User "kubernetes-admin" cannot list resource "nodes"' >&2
    exit 1
fi
exec KUBECTL "$@"
"#;
    fs::write(&starting, script.replace("KUBECTL", &plant.0.kubectl)).unwrap();
    fs::set_permissions(&starting, fs::Permissions::from_mode(0o755)).unwrap();
    plant.0.kubectl = starting.display().to_string();
    plant.does("cp-1", "forbids");
    let ran = plant.run(&EXECUTE, &["--restart", "reimage"]).succeeded();
    assert!(ran.err.contains("the API server does not answer"), "{}", ran.err);
    assert!(!plant.0.path("forbidden").exists(), "nobody was forbidden anything");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn two_operators_are_one_and_a_run_that_was_killed_is_gone_on_with() {
    let plant = Plant::new();
    plant.does("cp-1", "hangs");
    let mut first = plant.start(&EXECUTE, &["--restart", "reimage"]);
    until("the program to be at it", || (!plant.lines("seen").is_empty()).then_some(()));
    let ran = plant.run(&RESUME, &["--restart", "reimage"]).failed(1);
    assert_eq!(code(&ran), "upgrade-busy");
    let said = ran.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("(process {})", first.id())), "{said}");
    // Nobody changes charts meanwhile, nor is their lock kept.
    plant.0.chart("sample", "1.0.0");
    plant.0.charts(&[("one", "sample", json!({}), 1)]);
    for words in [&["charts", "install"][..], &["upgrade", "execute", "--helm"]] {
        let ran = plant.run(words, &["--charts", "charts.json"]).failed(1);
        assert_eq!(code(&ran), "upgrade-busy", "{words:?}");
        assert_eq!(ran.json()["error"]["message"].as_str().unwrap(), said);
    }

    // As a power failure would.
    first.kill().unwrap();
    finish(first);
    assert!(plant.is_cordoned("cp-1") && plant.mark("cp-1") == "1.35");
    plant.does("cp-1", "");
    plant.run(&RESUME, &["--restart", "reimage", "--take-over"]).succeeded();
    let restarted = plant.lines("restarted");
    assert_eq!(restarted[..2], ["cp-1 control-plane 1.35", "cp-1 control-plane 1.35"]);
    assert_eq!((restarted.len(), plant.0.backups()), (5, 2), "one backup of each run");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn without_a_program_the_operator_is_told_and_waited_for() {
    let plant = Plant::new();
    let running = plant.start(&EXECUTE, &[]);
    for (name, role) in [("cp-1", "control-plane"), ("cp-2", "control-plane"), ("w-1", "worker"), ("w-2", "worker")] {
        until("the next node to be cordoned", || (plant.mark(name) == "1.35").then_some(()));
        plant.boots(name, role);
    }
    let ran = finish(running).succeeded();
    assert!(ran.err.contains("boot w-2 (worker) from the image with Kubernetes 1.35"), "{}", ran.err);
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_drain_that_a_budget_stops_names_it_and_resume_goes_on() {
    let mut plant = Plant::new();
    let said = "error when evicting pods/web-0: Cannot evict pod as it would violate the pod's disruption budget.";
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *drain*) echo \"{said}\" >&2; exit 1;; esac\nexec {} \"$@\"\n",
        plant.0.kubectl
    );
    let fake = plant.0.path("stopped");
    fs::write(&fake, script).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let real = std::mem::replace(&mut plant.0.kubectl, fake.display().to_string());
    let ran = plant.run(&EXECUTE, &["--restart", "reimage"]).failed(1);
    assert_eq!(code(&ran), "node-not-drained");
    assert!(because(&ran).contains("web-0") && because(&ran).contains("disruption budget"), "{}", because(&ran));
    assert!(ran.json()["error"]["fix"].as_str().unwrap().contains("latchkey upgrade resume"));
    assert!(plant.is_cordoned("cp-1") && plant.lines("restarted").is_empty());

    plant.0.kubectl = real;
    plant.run(&RESUME, &["--restart", "reimage"]).succeeded();
    assert!(!plant.is_cordoned("cp-1"));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn without_a_backup_nothing_is_upgraded() {
    let plant = Plant::new();
    let nowhere = ["--restart", "reimage", "--backups", "/dev/null/backups"];
    assert_eq!(code(&plant.run(&EXECUTE, &nowhere).failed(1)), "file-unwritable");
    plant.is_unchanged();
    assert_eq!(code(&plant.run(&RESUME, &[]).failed(2)), "no-upgrade-under-way");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn what_has_to_be_done_first_is_named_and_nothing_is_changed() {
    let plant = Plant::new();
    let refused = |why: &str| {
        let ran = plant.run(&EXECUTE, &["--restart", "reimage"]).failed(1);
        assert_eq!(code(&ran), "upgrade-not-ready", "{why}");
        assert!(because(&ran).contains(why), "{why}: {}", because(&ran));
        plant.is_unchanged();
        assert_eq!(code(&plant.run(&RESUME, &[]).failed(2)), "no-upgrade-under-way", "{why}");
    };
    plant.is_ready("node", "w-1", "Unknown");
    refused("node w-1: it is not ready");
    plant.is_ready("node", "w-1", "True");
    plant.is_ready("pod", "etcd-cp-2", "False");
    refused("node cp-2: its etcd is not ready");
    plant.is_ready("pod", "etcd-cp-2", "True");
    plant.status("node", "w-2", &json!({"nodeInfo": {"kubeletVersion": "v1.31.2"}}));
    refused("node w-2: its kubelet v1.31.2 must be 1.32 or newer");
    plant.status("node", "w-2", &json!({"nodeInfo": {"kubeletVersion": "v1.34.4"}}));
    let ran = plant.run(&["upgrade", "execute", "--kubernetes", "1.33"], &[]).failed(1);
    assert!(because(&ran).contains("which can go to 1.35, and not to 1.33"), "{}", because(&ran));
    let ran = plant.run(&["upgrade", "execute", "--kubernetes", "1.35.1"], &[]).failed(2);
    assert_eq!(code(&ran), "kubernetes-version-malformed");
    plant.0.kubectl(&[
        "delete",
        "pod",
        "kube-apiserver-cp-1",
        "--namespace=kube-system",
        "--force",
        "--grace-period=0",
    ]);
    refused("node cp-1: its API server cannot be seen");
    // Whoever says neither, or both, is not guessed at.
    for both in [&["upgrade", "execute"][..], &["upgrade", "execute", "--helm", "--kubernetes", "1.35"]] {
        assert_eq!(code(&plant.run(both, &[]).failed(2)), "usage");
    }
}
