//! A cluster that is kept in its API server: the real command, a fake node, real kubectl and helm, a real API server.
//! `./dev e2e api-server`.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::support::cluster::write_chart;
use crate::support::node::{Behaviour, Happened, Stage};
use crate::support::plant::{MAPS, NODES, Plant, error_code};
use latchkey_api::control_plane::{ControlPlaneFiles, NAMES, file};
use latchkey_api::service_files::ServiceFiles;
use latchkey_api_server_rig::{ApiServer, Client, program};
use latchkey_cluster_store::control_plane;
use serde_json::{Value, json};

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

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn init_moves_the_cluster_into_its_api_server_and_the_join_service_can_use_it() {
    let plant = Plant::new();
    let said = ["--service-cidr", "10.112.0.0/16,fd00:112::/108", "--cert-san", "api.elsewhere.example"];
    plant.init(&[&["--kubernetes", "1.34"], &said[..]].concat()).succeeded();
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
    let document = plant.data("latchkey-cluster").to_string();
    assert!(!document.contains("control-plane.json") && !document.contains("PRIVATE KEY"), "{document}");
    let described = plant.data("latchkey-cluster")["kubernetes.json"].clone();
    let described = latchkey_cluster_store::KubernetesFile::parse(described.as_str().unwrap().as_bytes()).unwrap();
    assert_eq!((&*described.api_server, &*described.kubernetes_version), ("api.plant.example:6443", "1.34"));
    assert_eq!(described.service_networks, ["10.112.0.0/16", "fd00:112::/108"]);
    assert_eq!(described.api_server_hosts, ["api.elsewhere.example"]);
    assert!(plant.data("latchkey-references")["demo.json"].is_string());
    assert!(plant.data("latchkey-revisions")["revisions.json"].is_string());
    let nodes = plant.items(NODES);
    assert_eq!((nodes.len(), &nodes[0]["spec"]["role"]), (1, &json!("control-plane")));
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

/// The authority is the API server's own, as it is where kubeadm took the one that init sent.
#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn services_inside_get_credentials_that_the_api_server_knows_and_that_no_document_has() {
    let plant = Plant::new();
    keep_its_authority(&plant);
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    private(&plant.operator.path("identity.key"), &key);
    plant.init(&["--services", "inside", "--join-service-key", "identity.key"]).succeeded();
    an_administrator_gets_another_kubeconfig(&plant);
    let sent = plant.node.state().settings.as_ref().unwrap().service_files.clone();
    let sent = ServiceFiles::if_any(&sent).unwrap().expect("the services' files");
    let of = |name: &str| sent.iter().find(|(one, _)| *one == name).unwrap().1.to_vec();
    assert_eq!(of("identity.key"), key.trim_end().as_bytes());
    let master = fs::read_to_string(plant.operator.path("master.json")).unwrap();
    assert_eq!(of("master.json"), master.trim_end().as_bytes());
    // Its rights alone; and the operator's machine keeps nothing of it.
    let store: Value = serde_json::from_slice(&of("join-service.kubeconfig")).unwrap();
    assert_eq!(store["clusters"][0]["cluster"]["tls-server-name"], "kubernetes");
    let service = as_join_service(&plant.server, &store);
    assert_eq!(service.get(NODES).granted()["items"].as_array().unwrap().len(), 1);
    service.get("/api/v1/secrets").forbidden();
    assert!(!plant.operator.path("plant/join-service.kubeconfig").exists());
    // Nothing of the cluster's trust is in the API server.
    let secret = master.split('"').filter(|part| part.len() >= 32).max_by_key(|part| part.len()).unwrap();
    let everything = ["/api/v1/secrets", "/api/v1/configmaps", NODES];
    let everything: String = everything.iter().map(|path| plant.admin.get(path).granted().to_string()).collect();
    assert!(everything.contains("latchkey-policy") && !everything.contains(secret));
    assert!(!everything.contains("PRIVATE KEY"));
}

/// In the cluster's directory the API server's own authority, as if init had sent it.
fn keep_its_authority(plant: &Plant) {
    let directory = plant.operator.path("plant");
    fs::create_dir_all(&directory).unwrap();
    let of = |name: &str| match name {
        "ca.crt" => plant.server.authority().to_owned(),
        "ca.key" => plant.server.authority_key(),
        _ => format!("hush {name}"),
    };
    let files = NAMES.into_iter().map(|name| file(name, of(name).into_bytes())).collect();
    let shared = control_plane::to_json(&ControlPlaneFiles::new(files).unwrap());
    private(&directory.join("control-plane.json"), &shared);
}

/// The node told the result to an init that was killed before it wrote it down.
#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn an_init_that_came_too_late_for_the_credentials_goes_on_with_new_ones() {
    let plant = Plant::new();
    keep_its_authority(&plant);
    plant.node.behave(Behaviour { hold_attach: true, ..Behaviour::default() });
    let mut first = plant.init_started(&["--kubernetes", "1.34"]);
    plant.node.wait_for(Happened::Attached);
    first.kill().unwrap();
    first.wait().unwrap();
    plant.node.restart(Stage::Existing);
    plant.node.behave(Behaviour::default());

    let without = plant.init(&["--resume"]).failed(1);
    assert_eq!(error_code(&without), "cluster-missing");
    // kubeadm gives this group its rights.
    let administrators = json!({
        "metadata": {"name": "kubeadm:cluster-admins"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "kubeadm:cluster-admins"}],
    });
    plant.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &administrators).granted();
    let fix = without.json()["error"]["fix"].as_str().unwrap().to_owned();
    let url = plant.server.url();
    let advised = fix.split('`').nth(1).unwrap().replace("HOST", url.strip_prefix("https://").unwrap());
    let advised: Vec<&str> = advised.split(' ').skip(1).collect();
    plant.operator.run(&advised).succeeded();
    plant.init(&["--resume"]).succeeded();
    assert_eq!(plant.items(NODES).len(), 1);
}

fn an_administrator_gets_another_kubeconfig(plant: &Plant) {
    let url = plant.server.url();
    let address = url.strip_prefix("https://").unwrap();
    let get = ["credentials", "admin", "--cluster", "plant", "--api-server", address, "--out", "admin.conf"];
    private(&plant.operator.path("admin.conf"), "ended");
    plant.operator.run(&get).succeeded();
    let file = plant.operator.path("admin.conf");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut kubectl = std::process::Command::new(&plant.kubectl);
    kubectl.arg("--kubeconfig").arg(&file).args(["auth", "whoami", "--output", "json"]);
    let whoami = latchkey_test_support::output(&mut kubectl).unwrap();
    let whoami: Value = serde_json::from_slice(&whoami.stdout).unwrap();
    let user = &whoami["status"]["userInfo"];
    assert_eq!(user["username"], "kubernetes-admin");
    assert!(user["groups"].as_array().unwrap().contains(&json!("kubeadm:cluster-admins")), "{whoami}");
}

fn private(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
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
    let script = format!("case \"$*\" in *--output=yaml*) exit 7;; esac; exec {} \"$@\"", kubectl.display());
    plant.kubectl = plant.fake_program("cut", &script);
    assert_eq!(error_code(&plant.init(&here).failed(1)), "program-failed");
    assert_eq!(fs::read_to_string(plant.operator.path("plant/admin.conf")).unwrap(), given);
    plant.kubectl = kubectl;
    plant.init(&here).succeeded();

    let admin = plant.operator.path("plant/admin.conf");
    assert_eq!(fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
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
    assert!(fs::read_dir(plant.operator.path("latchkey-backups")).unwrap().next().is_some());
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn the_credentials_are_merged_into_the_kubeconfig_of_every_day_and_nothing_in_it_is_lost() {
    let plant = Plant::new();
    let (kubectl, file) = (plant.kubectl.to_str().unwrap(), plant.operator.path("daily"));
    let beside = plant.operator.path("beside.crt").display().to_string();
    let config = |arguments: &[&str]| {
        let mut kubectl = std::process::Command::new(&plant.kubectl);
        let ran = latchkey_test_support::output(kubectl.args(arguments).arg("--kubeconfig").arg(&file)).unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let init = |more: &[&str]| {
        let merge = ["--kubectl-program", kubectl, "--output", "json", "--merge-kubeconfig", "link"];
        plant.operator.init(&plant.node, &[&merge[..], more].concat())
    };
    std::os::unix::fs::symlink(&file, plant.operator.path("link")).unwrap();
    config(&["config", "set-cluster", "plant", "--server=https://old.example:6443"]);
    config(&["config", "set-credentials", "me", "--token=secret", &format!("--client-certificate={beside}")]);
    config(&["config", "set-context", "home", "--cluster=plant", "--user=me"]);
    config(&["config", "use-context", "home"]);

    // A name that is taken is said before the node is touched.
    let (before, shown) = (fs::read(&file).unwrap(), plant.node.shown());
    let taken = init(&[]).failed(2);
    assert_eq!(error_code(&taken), "kubeconfig-name-taken");
    assert!(taken.json()["error"]["fix"].as_str().unwrap().contains("delete-cluster plant"));
    assert_eq!((fs::read(&file).unwrap(), plant.node.shown()), (before, shown));
    config(&["config", "delete-cluster", "plant"]);
    config(&["config", "set-cluster", "old", "--server=https://old.example:6443"]);
    config(&["config", "set-context", "home", "--cluster=old"]);

    // Somebody else writes it now: the cluster is there, and the same command goes on.
    let lock = plant.operator.path("daily.lock");
    fs::write(&lock, "").unwrap();
    assert_eq!(error_code(&init(&[]).failed(1)), "kubeconfig-busy");
    fs::remove_file(&lock).unwrap();
    for _ in 0..2 {
        init(&["--resume"]).succeeded();
        assert!(plant.operator.path("link").is_symlink() && !lock.exists());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let view: Value = serde_json::from_str(&config(&["config", "view", "--raw", "-o", "json"])).unwrap();
        let names =
            |of: &str| -> Vec<Value> { view[of].as_array().unwrap().iter().map(|one| one["name"].clone()).collect() };
        assert_eq!(
            (names("clusters"), names("users")),
            (vec![json!("old"), json!("plant")], vec![json!("me"), json!("plant-admin")])
        );
        assert_eq!(
            (names("contexts"), &view["current-context"]),
            (vec![json!("home"), json!("plant")], &json!("home"))
        );
        assert_eq!(view["users"][0]["user"], json!({"token": "secret", "client-certificate": "beside.crt"}));
    }
    assert!(config(&["--context", "plant", "get", "namespaces", "-o", "name"]).contains("namespace/default"));
    assert!(fs::read_to_string(&file).unwrap().starts_with("apiVersion: v1"), "as kubectl writes it");
    let left: Vec<_> =
        fs::read_dir(plant.operator.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("daily.")), "{left:?}");

    // A file that is not there is made.
    plant
        .operator
        .init(&plant.node, &["--kubectl-program", kubectl, "--merge-kubeconfig", "new/config", "--resume"])
        .succeeded();
    let made = plant.operator.path("new/config");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&made).unwrap().contains("current-context: plant"));
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
    // Each of these words ends the run, whichever program it is for: before the chart, after it, before the documents, before
    // the record, before the cluster is named, before the certificate and after its request.
    let cuts = [
        ("helm", "install"),
        ("kubectl", "established"),
        ("kubectl-input", "latchkey-policy"),
        ("kubectl-input", "AttestedNode"),
        ("kubectl-input", "latchkey-cluster"),
        ("kubectl", "/approval"),
    ];
    for (number, (of, word)) in cuts.into_iter().enumerate() {
        let program = if of == "helm" { real(&helm) } else { real(&kubectl) };
        let script = if of == "kubectl-input" {
            // What is written comes by standard input.
            format!(
                "case \"$1\" in create|replace|apply) input=$(cat); case \"$input\" in *'\"name\":\"{word}'*|*'\"kind\":\"{word}'*) \
                 exit 7;; esac; printf %s \"$input\" | {program} \"$@\"; exit;; esac; exec {program} \"$@\""
            )
        } else {
            format!("case \"$*\" in *{word}*) exit 7;; esac; exec {program} \"$@\"")
        };
        let cut = plant.fake_program(&format!("cut-{number}"), &script);
        (plant.kubectl, plant.helm) = if of == "helm" { (kubectl.clone(), cut) } else { (cut, helm.clone()) };
        let ran = plant.init(&[]);
        assert_eq!((ran.code, error_code(&ran)), (1, "program-failed".to_owned()), "{of} {word}: {ran:?}");
        assert!(!plant.operator.path("plant/store.json").exists());
    }
    (plant.kubectl, plant.helm) = (kubectl, helm);
    plant.init(&["--resume"]).succeeded();
    assert_eq!(plant.items(NODES).len(), 1);
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
