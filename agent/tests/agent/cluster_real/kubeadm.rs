//! What the cluster step writes, judged by the real kubeadm (`./dev e2e kubeadm` builds it).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster_fake::{FakeKubeadm, control_plane_ticket, member, settings, ticket};
use latchkey_agent::cluster::Work;
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::v1::ClusterSettings;
use latchkey_kubernetes::{Roles, Table};
use latchkey_test_support::output;

/// The version of `qemu-tests/kubernetes/kubernetes/go.mod`.
const VERSION: &str = "v1.34.4";

/// `LATCHKEY_KUBEADM`, or the one in the cache that `./dev e2e kubeadm` fills.
fn real_kubeadm() -> PathBuf {
    let named = std::env::var_os("LATCHKEY_KUBEADM").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = &named {
        assert!(path.is_file(), "LATCHKEY_KUBEADM names {}, which is not there", path.display());
    }
    let cached = || {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let cache =
            std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from).or_else(home)?;
        Some(cache.join("latchkey/kubernetes").join(VERSION).join("kubeadm")).filter(|path| path.is_file())
    };
    named.or_else(cached).expect("a real kubeadm: with Go 1.24 or newer, `./dev e2e kubeadm` builds it")
}

fn version(kubeadm: &Path) -> String {
    let printed = output(Command::new(kubeadm).args(["version", "--output=short"])).unwrap();
    String::from_utf8(printed.stdout).unwrap().trim().into()
}

fn minor(kubeadm: &Path) -> String {
    version(kubeadm).trim_start_matches('v').split('.').take(2).collect::<Vec<_>>().join(".")
}

/// A step whose kubeadm has each configuration judged by the real one, and fails if that says no.
fn judged() -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    std::fs::write(fake.path("real"), real_kubeadm().as_os_str().as_encoded_bytes()).unwrap();
    fake
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_accepts_how_a_cluster_is_made() {
    let kubeadm = real_kubeadm();
    let mut full = ClusterSettings {
        kubernetes_version: minor(&kubeadm),
        control_plane_endpoint: "[fd00::1]:6443".into(),
        pod_cidr: "10.244.0.0/16,fd00:10::/56".into(),
        service_cidr: "10.96.0.0/12,fd00:20::/112".into(),
        untainted: true,
        ..settings()
    };
    full.apiserver_cert_sans = vec!["*.plant.example".into(), "192.0.2.7".into(), "fd00::7".into()];
    let endpoint = |text: &str| ClusterSettings { control_plane_endpoint: text.into(), ..settings() };
    let wishes = [settings(), full, endpoint("fd00::1"), endpoint("192.0.2.1"), endpoint("api.plant.example:443")];
    for settings in wishes {
        let fake = judged();
        let shown = format!("{settings:?}");
        let ran = fake.run(&member(NodeRole::First), &Work::Init(settings, None));
        assert!(ran.result.is_ok(), "{shown}: {:?}", ran.result);
        assert!(!ran.lines.iter().any(|line| line.contains("unknown field")), "{:?}", ran.lines);
    }
}

/// Every node finds the API servers on its own loopback: each certificate of theirs has to be good for that.
#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_makes_certificates_that_are_good_behind_the_balancer() {
    let fake = judged();
    std::fs::write(fake.path("api-balancer"), "").unwrap();
    let ran =
        fake.run(&member(NodeRole::First), &Work::Init(ClusterSettings { api_balancer: true, ..settings() }, None));
    assert!(ran.result.is_ok(), "{:?}", ran.result);
    let configurations = fake.records("config");
    let documents = configurations[0].split("\n---\n").map(|text| serde_json::from_str(text).unwrap());
    let mut documents: Vec<serde_json::Value> = documents.collect();
    documents[1]["certificatesDir"] = fake.path("pki").to_str().unwrap().into();
    let texts: Vec<String> = documents.iter().map(ToString::to_string).collect();
    std::fs::write(fake.path("certificates.json"), texts.join("\n---\n")).unwrap();
    let config = format!("--config={}", fake.path("certificates.json").display());
    for certificate in ["ca", "apiserver"] {
        let made = output(Command::new(real_kubeadm()).args(["init", "phase", "certs", certificate, &config])).unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let said = String::from_utf8_lossy(&made.stdout);
        assert!(certificate == "ca" || said.contains(" 127.0.0.1]") || said.contains(" 127.0.0.1 "), "{said}");
    }
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_accepts_how_a_node_joins() {
    for endpoint in ["192.0.2.1:6443", "[fd00::1]:6443", "api.plant.example:6443"] {
        for (role, mut ticket) in [(NodeRole::Worker, ticket()), (NodeRole::ControlPlane, control_plane_ticket())] {
            let fake = judged();
            ticket.api_server_endpoint = endpoint.into();
            ticket.untainted = true;
            let ran = fake.run(&member(role), &Work::Join(ticket));
            assert!(ran.result.is_ok(), "{endpoint}: {:?}", ran.result);
            assert!(!ran.lines.iter().any(|line| line.contains("unknown field")), "{:?}", ran.lines);
        }
    }
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_accepts_how_a_failed_try_is_reset() {
    let fake = judged();
    fake.on("kubeadm", "join", 1, "exit 1");
    fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
    let ran = fake.run(&member(NodeRole::Worker), &Work::Join(ticket()));
    assert!(ran.result.is_ok(), "{:?}", ran.result);
    assert!(fake.records("config")[1].contains("ResetConfiguration"));
}

/// A control plane of an earlier patch, started with the real one's release.
#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_lists_the_images_of_static_pods_and_accepts_how_a_release_is_upgraded() {
    let pods = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let (fake, release) = (judged(), version(&real_kubeadm()));
    std::fs::create_dir_all(fake.path("etc/manifests")).unwrap();
    let path = |name: &str| fake.path("etc/manifests").join(format!("{name}.yaml"));
    for name in pods {
        let tag = if name == "etcd" { "3.5.0-0".to_owned() } else { format!("v{}.0", minor(&real_kubeadm())) };
        std::fs::write(path(name), format!("    image: registry.k8s.io/{name}:{tag}\n")).unwrap();
    }
    std::fs::write(fake.path("cluster"), format!("kubernetesVersion: v{}.0\n", minor(&real_kubeadm()))).unwrap();
    let ran = fake.run(&member(NodeRole::ControlPlane), &Work::Start(None));
    assert!(ran.result.is_ok(), "{:?}", ran.result);
    assert!(!ran.lines.iter().any(|line| line.contains("unknown field")), "{:?}", ran.lines);
    assert!(fake.calls().contains(&"kubeadm upgrade apply --yes".into()), "{:?}", fake.calls());
    for name in pods {
        let now = std::fs::read_to_string(path(name)).unwrap();
        assert!(name == "etcd" || now.ends_with(&format!(":{release}\n")), "{now}");
        assert!(!now.contains(":3.5.0-0") && !now.contains(".0\n"), "{now}");
    }

    // It takes the arguments, and ends where it needs a cluster.
    let configuration = fake.path("upgrade.json");
    std::fs::write(&configuration, fake.records("config").last().unwrap()).unwrap();
    let config = format!("--config={}", configuration.display());
    for (words, file) in [(&["apply", "--yes"][..], "admin.conf"), (&["node"], "kubelet.conf")] {
        let ran = output(Command::new(real_kubeadm()).arg("upgrade").args(words).arg(&config)).unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("couldn't create a Kubernetes client") && said.contains(file), "{said}");
    }
    let help = output(Command::new(real_kubeadm()).args(["upgrade", "apply", "--help"])).unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("\nbootstrap-token "), "what is skipped is not among its phases: {help}");
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_judge_is_a_judge() {
    let fake = judged();
    let refused = |text: &str| {
        std::fs::write(fake.path("wrong.json"), text).unwrap();
        let path = format!("--config={}", fake.path("wrong.json").display());
        let judged = output(Command::new(real_kubeadm()).args(["config", "validate", &path])).unwrap();
        assert!(!judged.status.success(), "{text} was accepted");
    };
    refused(r#"{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"JoinConfiguration","discovery":{"no":1}}"#);
    refused(r#"{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"ResetConfiguration","forced":true}"#);
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_knows_the_phase_that_is_skipped_and_says_its_version() {
    let kubeadm = real_kubeadm();
    let run = |arguments: &[&str]| output(Command::new(&kubeadm).args(arguments)).unwrap();
    let help = run(&["join", "phase", "control-plane-prepare", "download-certs", "--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("download-certs"));
    // What is skipped when etcd counts a node, and what is left of the join then, in kubeadm's order.
    let help = run(&["join", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout);
    // `check-etcd` is one that this list hides.
    let phases = ["preflight", "control-plane-prepare", "kubelet-start", "etcd-join", "control-plane-join"];
    let places = phases.map(|phase| text.find(&format!("\n{phase} ")).unwrap_or_else(|| panic!("{phase}: {text}")));
    assert!(places.is_sorted(), "{text}");
    assert!(std::env::var_os("LATCHKEY_KUBEADM").is_some() || version(&kubeadm) == VERSION, "{}", version(&kubeadm));
}

/// An image under a tag that kubeadm does not ask for would be brought to every node, and used by none.
#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_images_of_the_version_table_are_those_that_the_real_kubeadm_asks_for() {
    let kubeadm = real_kubeadm();
    let table = Table::built_in().unwrap();
    let release = table.release(minor(&kubeadm).parse().unwrap()).unwrap();
    let release_flag = format!("--kubernetes-version=v{}", release.version());
    let listed = output(Command::new(&kubeadm).args(["config", "images", "list", &release_flag])).unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let asked_for: Vec<&str> = listed.lines().collect();
    assert!(asked_for.len() >= 7, "{listed}");
    for image in release.images(&Roles::default()) {
        let reference = image.reference().to_string();
        assert!(asked_for.contains(&&*reference), "{reference} is not in:\n{listed}");
    }
}

/// Its words of the phase in which a node becomes a member of etcd, from which the cluster step knows what failed.
#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_names_the_phase_of_etcd_that_failed() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("configuration");
    // The API server of a dry run is kubeadm's own, which knows this token. Patches that are not there fail in that phase alone.
    let join = serde_json::json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "dryRun": true,
        "discovery": {"bootstrapToken": {
            "token": "abcdef.abcdef0123456789", "apiServerEndpoint": "127.0.0.1:1", "unsafeSkipCAVerification": true,
        }},
        "controlPlane": {"localAPIEndpoint": {"advertiseAddress": "192.0.2.7"}},
        "nodeRegistration": {"name": "edge-1", "criSocket": "unix:///none"},
        "patches": {"directory": directory.path().join("none")},
        "skipPhases": ["preflight", "control-plane-prepare", "check-etcd", "kubelet-start", "kubelet-wait-bootstrap"],
    });
    std::fs::write(&configuration, join.to_string()).unwrap();
    let mut kubeadm = Command::new(real_kubeadm());
    kubeadm.arg("join").arg("--config").arg(&configuration).env("KUBEADM_JOIN_DRYRUN_DIR", directory.path());
    let failed = output(&mut kubeadm).unwrap();
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && said.contains("error execution phase etcd-join: "), "{said}");
}

/// A control plane's certificates, made by the real one to be good for so long.
fn with_certificates(good_for: &str) -> FakeKubeadm {
    let fake = judged();
    let (etc, release) = (fake.path("etc"), version(&real_kubeadm()));
    let documents = [
        serde_json::json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": "192.0.2.7"}, "nodeRegistration": {"name": "edge-1"},
        }),
        serde_json::json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": release,
            "encryptionAlgorithm": "ECDSA-P256", "certificateValidityPeriod": good_for,
            "certificatesDir": etc.join("pki"), "apiServer": {"certSANs": ["api.plant.example"]},
        }),
    ];
    let configuration = fake.path("certificates.json");
    std::fs::write(&configuration, documents.map(|one| one.to_string()).join("\n---\n")).unwrap();
    let config = format!("--config={}", configuration.display());
    let directory = format!("--kubeconfig-dir={}", etc.display());
    for words in [&["certs", "all", &config][..], &["kubeconfig", "all", &config, &directory]] {
        let made = output(Command::new(real_kubeadm()).args(["init", "phase"]).args(words)).unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let note = serde_json::json!({"version": 1, "kubernetes": release}).to_string();
    std::fs::create_dir(etc.join("latchkey")).unwrap();
    std::fs::write(etc.join("latchkey/kubernetes.json"), note).unwrap();
    fake
}

#[test]
#[ignore = "needs the real kubeadm: ./dev e2e kubeadm"]
fn the_real_kubeadm_renews_certificates_of_which_little_is_left_and_no_others() {
    let renewed = [
        "pki/apiserver.crt",
        "pki/apiserver-etcd-client.crt",
        "pki/apiserver-kubelet-client.crt",
        "pki/front-proxy-client.crt",
        "pki/etcd/server.crt",
        "pki/etcd/peer.crt",
        "pki/etcd/healthcheck-client.crt",
        "admin.conf",
        "super-admin.conf",
        "controller-manager.conf",
        "scheduler.conf",
    ];
    let kept = ["pki/ca.crt", "pki/ca.key", "pki/etcd/ca.crt", "pki/front-proxy-ca.key", "pki/sa.key", "kubelet.conf"];
    for (good_for, little) in [("1416h", true), ("1464h", false)] {
        let fake = with_certificates(good_for);
        let read = |name: &&str| std::fs::read(fake.path("etc").join(name)).unwrap();
        let (before, authorities) = (renewed.each_ref().map(read), kept.each_ref().map(read));
        let ran = fake.run(&member(NodeRole::ControlPlane), &Work::Start(None));
        assert!(ran.result.is_ok(), "{:?}", ran.result);
        assert!(!ran.lines.iter().any(|line| line.contains("not renewed")), "{:?}", ran.lines);
        assert!(!ran.lines.iter().any(|line| line.contains("unknown field")), "{:?}", ran.lines);
        for (name, before) in renewed.iter().zip(before) {
            assert_eq!(read(name) != before, little, "{name} of {good_for}: {:?}", ran.lines);
        }
        assert_eq!(kept.each_ref().map(read), authorities);
        // Once more there is nothing to do: what was renewed is good for a year.
        let before = renewed.each_ref().map(read);
        fake.run(&member(NodeRole::ControlPlane), &Work::Start(None)).result.unwrap();
        assert_eq!(renewed.each_ref().map(read), before);
        let shown = ["certs", "check-expiration", "--output=json"];
        let configuration = format!("--config={}", fake.path("certificates.json").display());
        let shown = output(Command::new(real_kubeadm()).args(shown).arg(configuration)).unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        let found = shown["certificates"].as_array().unwrap();
        let server = found.iter().find(|one| one["name"] == "apiserver").unwrap();
        let days = server["residualTime"].as_i64().unwrap() / (24 * 60 * 60);
        assert!(if little { days >= 364 } else { days < 62 }, "{days}");
    }
}
