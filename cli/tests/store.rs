//! A cluster that is kept in its API server: the real command, a fake node, real kubectl and helm, a real API server.
//! `./dev e2e api-server`.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod support;

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api_server_rig::{ApiServer, Client, Setup, program};
use latchkey_test_support::until;
use serde_json::{Value, json};
use support::cluster::write_chart;
use support::command::Ran;
use support::node::{Behaviour, FakeNode, Stage};
use support::operator::Operator;

const NODES: &str = "/apis/latchkey.dev/v1alpha1/attestednodes";
const CLAIMS: &str = "/apis/latchkey.dev/v1alpha1/nodeclaims";
const MAPS: &str = "/api/v1/namespaces/latchkey/configmaps";

struct Plant {
    operator: Operator,
    node: FakeNode,
    server: ApiServer,
    admin: Client,
    kubectl: PathBuf,
    helm: PathBuf,
}

impl Plant {
    /// A node whose cluster step gives the credentials of a real API server.
    fn new() -> Self {
        let (operator, node) = Operator::with_node();
        Self::of(operator, node)
    }

    /// The same, of a node whose manifest says nothing of its firmware.
    fn with_any_firmware() -> Self {
        let operator = Operator::new();
        let node = FakeNode::start(&operator.init_secret());
        node.set_pcr(2, [1; 32]);
        let (address, ek) = (node.address(), node.ek().to_string());
        let arguments = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", "1.0.0", "--warn", ""];
        let files = ["--out", "demo.json", "--policy-out", "policy.json", "--firmware-refuse", "0,2"];
        operator.run(&[&arguments[..], &files].concat()).succeeded();
        Self::of(operator, node)
    }

    fn of(operator: Operator, node: FakeNode) -> Self {
        let server = ApiServer::with(Setup { controllers: true, ..Setup::default() });
        let admin = server.client(&server.admin());
        let config = fs::read(server.kubeconfig("operator", &server.admin())).unwrap();
        node.behave(Behaviour { admin_config: Some(config), ..Behaviour::default() });
        Self { operator, node, server, admin, kubectl: program("kubectl"), helm: program("helm") }
    }

    fn init(&self, more: &[&str]) -> Ran {
        let (kubectl, helm) = (self.kubectl.to_str().unwrap(), self.helm.to_str().unwrap());
        let store = ["--store", "kubernetes", "--kubectl-program", kubectl, "--helm-program", helm, "--output", "json"];
        // The real one is on loopback, where no node finds it.
        let endpoint = ["--control-plane-endpoint", "api.plant.example"];
        self.operator.init(&self.node, &[&store[..], &endpoint, more].concat())
    }

    /// A command about machines, by the cluster's directory.
    fn machines(&self, arguments: &[&str]) -> Ran {
        let kubectl = self.kubectl.to_str().unwrap();
        let more = ["--cluster", "plant", "--kubectl-program", kubectl, "--output", "json"];
        self.operator.run(&[arguments, &more].concat())
    }

    fn items(&self, path: &str) -> Vec<Value> {
        self.admin.get(path).granted()["items"].as_array().unwrap().clone()
    }

    fn data(&self, map: &str) -> Value {
        self.admin.get(&format!("{MAPS}/{map}")).granted()["data"].clone()
    }

    /// A program that does what a test tells it: fake, in the place of a stock one.
    fn fake_program(&self, name: &str, script: &str) -> PathBuf {
        use std::io::Write as _;
        let path = self.operator.path(name);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path).unwrap();
        file.write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        path
    }
}

/// The real kubeadm makes all other certificates of a control plane by these authorities, and leaves them as they are.
#[test]
#[ignore = "needs kubeadm, and what the others need: ./dev e2e api-server"]
fn kubeadm_builds_on_the_authorities_that_init_made() {
    let plant = Plant::new();
    plant.init(&["--kubernetes", "1.34"]).succeeded();
    let kept = latchkey_cluster_store::control_plane::read(&plant.operator.path("plant/control-plane.json")).unwrap();
    let pki = plant.operator.path("pki");
    fs::create_dir_all(pki.join("etcd")).unwrap();
    for (name, data) in kept.iter() {
        fs::write(pki.join(name), data).unwrap();
    }
    let arguments = ["init", "phase", "certs", "all", "--apiserver-advertise-address=192.0.2.1"];
    let mut kubeadm = std::process::Command::new(program("kubeadm"));
    kubeadm.args(arguments).arg("--kubernetes-version=v1.34.4").arg("--cert-dir").arg(&pki);
    let made = latchkey_test_support::output(&mut kubeadm).unwrap();
    let said = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "{said} {}", String::from_utf8_lossy(&made.stderr));
    for (name, data) in kept.iter() {
        assert!(fs::read(pki.join(name)).unwrap() == data, "{name} is another one: {said}");
    }
    let issued =
        ["apiserver.crt", "apiserver-kubelet-client.crt", "front-proxy-client.crt", "etcd/healthcheck-client.crt"];
    assert!(issued.iter().all(|name| pki.join(name).is_file()), "{said}");
}

fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn init_moves_the_cluster_into_its_api_server_and_the_join_service_can_use_it() {
    let plant = Plant::new();
    plant.init(&["--kubernetes", "1.34"]).succeeded();
    // What the directory holds is what the API server holds.
    for (map, file) in [
        ("latchkey-policy", "policy.json"),
        ("latchkey-enrolment", "enrolment.json"),
        ("latchkey-cluster", "cluster.json"),
    ] {
        let there = fs::read_to_string(plant.operator.path("plant").join(file)).unwrap();
        assert_eq!(plant.data(map)[file], there, "{map}");
    }
    // The authorities are the directory's, and in no document.
    let kept = latchkey_cluster_store::control_plane::read(&plant.operator.path("plant/control-plane.json")).unwrap();
    let sent = plant.node.state().control_plane_files.take().unwrap();
    assert!(ControlPlaneFiles::new(sent.files).unwrap() == kept);
    assert!(!plant.data("latchkey-cluster").to_string().contains("control-plane"));
    let described = plant.data("latchkey-cluster")["kubernetes.json"].clone();
    let described = latchkey_cluster_store::KubernetesFile::parse(described.as_str().unwrap().as_bytes()).unwrap();
    assert_eq!((&*described.api_server, &*described.kubernetes_version), ("api.plant.example:6443", "1.34"));
    assert!(plant.data("latchkey-references")["demo.json"].is_string());
    assert!(plant.data("latchkey-revisions")["revisions.json"].is_string());
    let nodes = plant.items(NODES);
    assert_eq!((nodes.len(), &nodes[0]["spec"]["role"]), (1, &json!("control-plane")));
    assert_eq!(plant.items(CLAIMS).len(), 2, "name and disk");
    // The join service's own credentials: its file alone, and its rights alone.
    let kubeconfig = plant.operator.path("plant/join-service.kubeconfig");
    assert_eq!(fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o777, 0o600);
    let store = parsed(&kubeconfig);
    assert_eq!(store["current-context"], "join-service");
    let service = as_join_service(&plant.server, &store);
    assert_eq!(service.get(NODES).granted()["items"].as_array().unwrap().len(), 1);
    service.get("/api/v1/secrets").forbidden();
    assert!(plant.items("/apis/certificates.k8s.io/v1/certificatesigningrequests").is_empty());
    // Another is made on request.
    let before = fs::read(&kubeconfig).unwrap();
    plant.machines(&["credentials", "join-service", "--out", "plant/join-service.kubeconfig"]).succeeded();
    let renewed = parsed(&kubeconfig);
    assert_ne!(before, fs::read(&kubeconfig).unwrap());
    as_join_service(&plant.server, &renewed).get(NODES).granted();
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn the_operator_reaches_the_api_server_elsewhere_than_nodes_do() {
    let mut plant = Plant::new();
    // A name of its certificate which nobody here resolves: only nodes reach it there.
    let elsewhere = "https://kubernetes.default.svc:6443";
    let given = fs::read_to_string(plant.server.kubeconfig("node", &plant.server.admin())).unwrap();
    let given = given.replace(&plant.server.url(), elsewhere);
    assert!(given.contains(elsewhere), "{given}");
    plant.node.behave(Behaviour { admin_config: Some(given.clone().into_bytes()), ..Behaviour::default() });
    let url = plant.server.url();
    let here = ["--api-server", url.strip_prefix("https://").unwrap()];

    // Cut while the credentials change: they are whole, and the same command goes on.
    let kubectl = plant.kubectl.clone();
    let script = format!("case \"$*\" in *set-cluster*) exit 7;; esac; exec {} \"$@\"", kubectl.display());
    plant.kubectl = plant.fake_program("cut", &script);
    assert_eq!(error_code(&plant.init(&here).failed(1)), "program-failed");
    assert_eq!(fs::read_to_string(plant.operator.path("plant/admin.conf")).unwrap(), given);
    assert!(!plant.operator.path("plant/admin.changed").exists());
    plant.kubectl = kubectl;
    plant.init(&here).succeeded();

    let admin = plant.operator.path("plant/admin.conf");
    assert_eq!(fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!plant.operator.path("plant/admin.changed").exists());
    let view = ["config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster}", "--kubeconfig"];
    let viewed = std::process::Command::new(&plant.kubectl).args(view).arg(&admin).output().unwrap();
    let viewed: Value = serde_json::from_slice(&viewed.stdout).unwrap();
    let service = parsed(&plant.operator.path("plant/join-service.kubeconfig"))["clusters"][0]["cluster"].clone();
    for cluster in [viewed, service] {
        assert_eq!(cluster["server"], url, "{cluster}");
        assert_eq!(cluster["tls-server-name"], "kubernetes.default.svc", "{cluster}");
    }
    let told = plant.data("latchkey-cluster")["kubernetes.json"].as_str().unwrap().to_owned();
    assert!(told.contains("api.plant.example:6443") && !told.contains(&url[8..]), "{told}");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn init_installs_charts_at_its_end_and_a_file_that_is_wrong_is_said_before_the_node_is_touched() {
    let plant = Plant::new();
    write_chart(&plant.operator.path("sample"), "1.0.0");
    let file = |values: &Value, wait: u64| {
        let chart = json!({"name": "one", "namespace": "apps", "chart": {"directory": "sample"}, "values": {"inline": values}, "wait": wait});
        let file = json!({"schema": 1, "charts": [chart]}).to_string();
        fs::write(plant.operator.path("charts.json"), file).unwrap();
    };
    fs::write(plant.operator.path("charts.json"), "{").unwrap();
    let before = plant.node.shown();
    assert_eq!(error_code(&plant.init(&["--charts", "charts.json"]).failed(2)), "charts-file-malformed");
    assert_eq!(plant.node.shown(), before, "nobody spoke to the node");

    let value = || plant.admin.get("/api/v1/namespaces/apps/configmaps/one").granted()["data"]["key"].clone();
    file(&json!({"key": "stuck", "stuck": true}), 2);
    let ran = plant.init(&["--charts", "charts.json"]).failed(1);
    assert_eq!(error_code(&ran), "chart-not-ready");
    assert!(plant.operator.path("plant/store.json").exists(), "the cluster is there");
    // It never worked: deleted after a backup, and made anew.
    file(&json!({"key": "mended"}), 30);
    plant.init(&["--charts", "charts.json", "--resume"]).succeeded();
    assert_eq!(value(), "mended");
    assert!(fs::read_dir(plant.operator.path("plant/latchkey-backups")).unwrap().next().is_some());
}

/// The kubeconfig that the join service is to use.
fn parsed(path: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn as_join_service(server: &ApiServer, kubeconfig: &Value) -> Client {
    use base64::Engine as _;
    let user = &kubeconfig["users"][0]["user"];
    let pem = |field: &str| {
        let text = base64::engine::general_purpose::STANDARD.decode(user[field].as_str().unwrap()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let credentials = latchkey_api_server_rig::Credentials::new(pem("client-certificate-data"), pem("client-key-data"));
    server.client(&credentials)
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn an_init_that_is_cut_at_any_step_goes_on_and_founds_one_cluster() {
    let mut plant = Plant::new();
    let (kubectl, helm) = (plant.kubectl.clone(), plant.helm.clone());
    let real = |program: &PathBuf| program.to_str().unwrap().to_owned();
    // Each of these words ends the run, whichever program it is for: before the chart, after it, within the documents, before
    // the record, before the cluster is named, before the certificate and after its request.
    let cuts = [
        ("helm", "install"),
        ("kubectl", "established"),
        ("kubectl-input", "latchkey-policy"),
        ("kubectl-input", "latchkey-denied"),
        ("kubectl-input", "NodeClaim"),
        ("kubectl-input", "AttestedNode"),
        ("kubectl-input", "latchkey-cluster"),
        ("kubectl", "approve"),
    ];
    for (number, (of, word)) in cuts.into_iter().enumerate() {
        let program = if of == "helm" { real(&helm) } else { real(&kubectl) };
        let script = if of == "kubectl-input" {
            // What is created or replaced comes by standard input.
            format!(
                "case \"$1\" in create|replace) input=$(cat); case \"$input\" in *'\"name\":\"{word}'*|*'\"kind\":\"{word}'*) \
                 exit 7;; esac; printf %s \"$input\" | exec {program} \"$@\";; esac; exec {program} \"$@\""
            )
        } else {
            format!("case \"$*\" in *{word}*) exit 7;; esac; exec {program} \"$@\"")
        };
        let cut = plant.fake_program(&format!("cut-{number}"), &script);
        (plant.kubectl, plant.helm) = if of == "helm" { (kubectl.clone(), cut) } else { (cut, helm.clone()) };
        let ran = plant.init(&[]);
        assert_eq!(
            (ran.code, error_code(&ran)),
            (1, "program-failed".to_owned()),
            "{of} {word}: {}{}",
            ran.out,
            ran.err
        );
        assert!(!plant.operator.path("plant/store.json").exists());
    }
    (plant.kubectl, plant.helm) = (kubectl, helm);
    plant.init(&["--resume"]).succeeded();
    assert_eq!((plant.items(NODES).len(), plant.items(CLAIMS).len()), (1, 2));
    let id = plant.operator.json("plant/cluster.json")["cluster_id"].as_str().unwrap().to_owned();
    assert!(plant.data("latchkey-cluster")["cluster.json"].as_str().unwrap().contains(&id));
    assert!(plant.operator.path("plant/join-service.kubeconfig").exists());
    // Done is done.
    let again = plant.init(&[]).failed(1);
    assert_eq!(error_code(&again), "cluster-exists");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn the_api_server_of_another_cluster_is_refused_and_not_touched() {
    let plant = Plant::new();
    let foreign = json!({
        "version": 1, "name": "other", "cluster_id": "11".repeat(32), "measurement_salt": "22".repeat(32),
        "key_version": 1, "created_at": 1,
    });
    let namespace = json!({ "metadata": { "name": "latchkey" } });
    plant.admin.post("/api/v1/namespaces", &namespace).granted();
    let map = json!({ "metadata": { "name": "latchkey-cluster" }, "data": { "cluster.json": foreign.to_string() } });
    plant.admin.post(MAPS, &map).granted();
    let ran = plant.init(&[]).failed(2);
    assert_eq!(error_code(&ran), "foreign-cluster");
    assert_eq!(plant.data("latchkey-cluster")["cluster.json"], foreign.to_string());
    assert_eq!(plant.admin.get(NODES).status(), 404, "no chart was installed");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn machines_are_shown_denied_and_removed_in_the_api_server() {
    let plant = Plant::new();
    plant.init(&[]).succeeded();
    let worker = "ab".repeat(32);
    let disk = "0a0a0a0a-0000-4000-8000-0000000000ab";
    let spec = json!({
        "version": 1, "ek_sha256": worker, "name": "edge-2", "role": "worker", "first_joined_at": 1_800_000_000,
        "disks": [{ "uuid": disk, "epoch": 1, "state": "pending", "key_version": 1, "issued_at": 1_800_000_000 }],
    });
    let object = |kind: &str, name: &str, spec: &Value| json!({ "apiVersion": "latchkey.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    plant.admin.post(NODES, &object("AttestedNode", &worker, &spec)).granted();
    let claim = json!({ "kind": "name", "value": "edge-2", "ek_sha256": worker });
    plant.admin.post(CLAIMS, &object("NodeClaim", "name-of-edge-2", &claim)).granted();
    let broken = "cd".repeat(32);
    let mut spoilt = spec.clone();
    (spoilt["ek_sha256"], spoilt["maintained_by"]) = (json!(broken), json!("hand"));
    plant.admin.post(NODES, &object("AttestedNode", &broken, &spoilt)).granted();
    plant.admin.post("/api/v1/nodes", &json!({ "metadata": { "name": "edge-2" } })).granted();

    let list = plant.machines(&["node", "list"]).succeeded().json();
    let names: Vec<_> = list["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["edge-1", "edge-2"]);
    assert!(list["unreadable_records"][0].as_str().unwrap().contains(&broken));
    let shown = plant.machines(&["node", "show", "edge-2"]).succeeded().json();
    assert_eq!(shown["record"]["disks"][0]["uuid"], disk);

    plant.machines(&["node", "deny", "edge-2", "--reason", "stolen"]).succeeded();
    assert_eq!(plant.data("latchkey-denied")[&worker], "stolen");
    let shown = plant.machines(&["node", "show", "edge-2"]).succeeded().json();
    assert_eq!(shown["denial_reason"], "stolen");
    plant.machines(&["node", "allow", "edge-2"]).succeeded();
    assert_eq!(error_code(&plant.machines(&["node", "allow", "edge-2"]).failed(2)), "not-denied");

    plant.machines(&["node", "admit", &"ef".repeat(32), "--name", "edge-3"]).succeeded();
    assert!(plant.data("latchkey-enrolment")["enrolment.json"].as_str().unwrap().contains("edge-3"));

    // Its machine is off: nobody is there who could end its pods.
    let pod = json!({
        "metadata": { "name": "last" },
        "spec": {
            "nodeName": "edge-2", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
            "containers": [{ "name": "one", "image": "one" }],
        },
    });
    let default = "/api/v1/namespaces/default";
    until("the service account that pods run as", || {
        (plant.admin.get(&format!("{default}/serviceaccounts/default")).status() == 200).then_some(())
    });
    plant.admin.post(&format!("{default}/pods"), &pod).granted();

    // All of it at a glance, and what somebody should look at.
    let status = r#"--patch={"status":{"image":"plant","version":"1.2.3","lastAttestation":"2026-11-22T10:00:00Z"}}"#;
    let (kubeconfig, kubectl) = (plant.operator.path("plant/admin.conf"), &plant.kubectl);
    let mut patch = std::process::Command::new(kubectl);
    patch.args(["patch", "attestednode", &worker, "--subresource=status", "--type=merge", status, "--kubeconfig"]);
    assert!(latchkey_test_support::output(patch.arg(&kubeconfig)).unwrap().status.success());
    plant.admin.post("/api/v1/nodes", &json!({ "metadata": { "name": "stranger" } })).granted();
    plant.machines(&["node", "deny", "edge-2"]).succeeded();
    let status = plant.machines(&["status"]).succeeded().json();
    let row = status["nodes"].as_array().unwrap().iter().find(|row| row["name"] == "edge-2").unwrap();
    assert_eq!((&row["state"], &row["ready"], &row["image"]), (&json!("denied"), &json!(false), &json!("plant")));
    assert_eq!(row["last_attestation"], "2026-11-22T10:00:00Z");
    let ends: Vec<_> = status["certificates"].as_array().unwrap().iter().map(|one| one["ends"].as_str()).collect();
    assert!(ends.len() == 2 && ends.iter().all(|end| end.is_some_and(|end| end.ends_with('Z'))), "{status}");
    let attention = status["attention"].to_string();
    for sentence in [
        "edge-2 is denied, and still a Node",
        "stranger is a Node, and no machine on record",
        "edge-1 is a member on record, and no Node",
        "is no record of this release",
    ] {
        assert!(attention.contains(sentence), "{sentence}: {attention}");
    }
    plant.machines(&["node", "allow", "edge-2"]).succeeded();

    // A control plane's etcd member would stay behind; a worker goes with all that is its own.
    assert_eq!(error_code(&plant.machines(&["node", "remove", "edge-1"]).failed(2)), "control-plane-stays");
    let begun = Instant::now();
    let removed = plant.machines(&["node", "remove", "edge-2"]).succeeded().json();
    assert!(begun.elapsed() < Duration::from_mins(4), "its pods were waited for");
    assert_eq!((&removed["denied"], &removed["disks"][0]), (&json!(true), &json!(disk)));
    assert!(plant.data("latchkey-denied").get(&worker).is_some(), "from now on it gets no key");
    assert_eq!(plant.admin.get(&format!("{NODES}/{worker}")).status(), 404);
    assert_eq!(plant.admin.get("/api/v1/nodes/edge-2").status(), 404);
    assert!(plant.items(CLAIMS).iter().all(|claim| claim["spec"]["ek_sha256"] != worker.as_str()));

    // By the kubeconfig alone, and never in the directory by mistake.
    let (kubectl, kubeconfig) = (plant.kubectl.to_str().unwrap(), "plant/admin.conf");
    let by_kubeconfig = ["node", "list", "--kubeconfig", kubeconfig, "--kubectl-program", kubectl, "--output", "json"];
    let listed = plant.operator.run(&by_kubeconfig).succeeded().json();
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 1);
    let elsewhere =
        plant.operator.run(&["reference", "install", "demo.json", "--cluster", "plant", "--output", "json"]);
    assert_eq!(error_code(&elsewhere.failed(2)), "store-elsewhere");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn recover_and_accepted_firmware_go_by_the_records_and_denials_of_the_api_server() {
    let mut plant = Plant::with_any_firmware();
    plant.init(&[]).succeeded();
    let recover = |plant: &Plant, more: &[&str]| {
        let (kubectl, json) = (plant.kubectl.to_str().unwrap(), ["--output", "json"]);
        let programs = ["--kubectl-program", kubectl];
        plant.operator.recover(&plant.node, "master.json", &[&programs[..], &json, more].concat())
    };
    let keys_sent = |plant: &Plant| plant.node.state().recoveries;
    let restart = |plant: &Plant, rom: u8| {
        plant.node.restart(Stage::Existing);
        plant.node.set_pcr(2, [rom; 32]);
    };
    let firmware = |plant: &Plant| plant.items(NODES)[0]["spec"]["firmware"].clone();
    restart(&plant, 1);
    recover(&plant, &[]).succeeded();

    // A change waits beside the record, in the API server, until the operator says that it is meant.
    restart(&plant, 2);
    assert_eq!(error_code(&recover(&plant, &[]).failed(3)), "firmware-changed");
    assert_eq!(firmware(&plant)["changed"]["measured"]["pcrs"]["2"], "02".repeat(32));
    let shown = plant.machines(&["node", "show", "edge-1"]).succeeded().json();
    let change = plant.machines(&["policy", "accept-firmware", "edge-1"]).failed(2).json()["error"]["fix"].clone();
    let change = change.as_str().unwrap().split_whitespace().last().unwrap().to_owned();
    plant.machines(&["policy", "accept-firmware", "edge-1", "--change", &change]).succeeded();
    assert_eq!(firmware(&plant)["measured"]["pcrs"]["2"], "02".repeat(32), "{shown}");
    let sent = keys_sent(&plant);
    restart(&plant, 2);
    recover(&plant, &[]).succeeded();
    assert_eq!(keys_sent(&plant), sent + 1);

    // A denial there, of which the directory knows nothing.
    plant.machines(&["node", "deny", "edge-1"]).succeeded();
    restart(&plant, 2);
    assert_eq!(error_code(&recover(&plant, &[]).failed(3)), "machine-denied");
    assert_eq!(keys_sent(&plant), sent + 1, "no key was sent");
    // Without the API server nobody knows of denials; the operator's word goes by the directory.
    plant.server.kill_api();
    let error = recover(&plant, &[]).failed(5).json()["error"].clone();
    assert_eq!(error["code"], "api-server-unreachable", "{error}");
    assert!(error["fix"].as_str().unwrap().contains("--by-directory"), "{error}");
    assert_eq!(keys_sent(&plant), sent + 1, "no key was sent");
    restart(&plant, 1);
    recover(&plant, &["--by-directory"]).succeeded();
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn an_api_server_that_is_away_and_programs_that_lie_are_named_and_cost_nothing() {
    let mut plant = Plant::new();
    plant.init(&[]).succeeded();
    let kubectl = plant.kubectl.clone();
    let real = kubectl.to_str().unwrap().to_owned();
    plant.kubectl = plant.operator.path("missing");
    assert_eq!(error_code(&plant.machines(&["node", "list"]).failed(1)), "program-unusable");
    // Half an answer, and one that is none.
    for (name, answer) in [("half", "{\\\"apiVersion\\\": \\\"v1\\\", \\\"items\\\": ["), ("none", "<html>")] {
        let script = format!("case \"$*\" in *attestednodes*) echo \"{answer}\"; exit 0;; esac; exec {real} \"$@\"");
        plant.kubectl = plant.fake_program(name, &script);
        assert_eq!(error_code(&plant.machines(&["node", "list"]).failed(1)), "program-answer-malformed");
    }
    plant.kubectl = kubectl;
    plant.server.kill_api();
    let ran = plant.machines(&["node", "deny", "edge-1"]).failed(5);
    assert_eq!(error_code(&ran), "api-server-unreachable");
    plant.server.start_api();
    plant.machines(&["node", "deny", "edge-1"]).succeeded();
}
