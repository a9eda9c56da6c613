//! The script against a real API server, with real kubectl. No pod runs there and no Flux: a stand-in for the kubelet does what the
//! pod's program would with the pod's own rights and says that the pod has ended, a stand-in for Flux says that it has reconciled.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use latchkey_api_server_rig::{ApiServer, Client, program};
use latchkey_factory_plus::cluster::Configuration;
use latchkey_test_support::output;
use serde_json::{Value, json};

use crate::bootstrap::written::{CLUSTER, NAMESPACE, flux_template, stored, token};

const SECRETS: &str = "/api/v1/namespaces/fplus-edge/secrets";
const KEYS: &str = "krbkeys.factoryplus.app.amrc.co.uk";

/// As much of Flux as the script looks at: definitions that take everything, and Deployments whose pods never run.
fn flux_system() -> String {
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}})];
    for (kind, plural, group, version) in [
        ("GitRepository", "gitrepositories", "source.toolkit.fluxcd.io", "v1"),
        ("Kustomization", "kustomizations", "kustomize.toolkit.fluxcd.io", "v1"),
        ("HelmRelease", "helmreleases", "helm.toolkit.fluxcd.io", "v2"),
    ] {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        all.push(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }],
            },
        }));
    }
    for name in ["source-controller", "kustomize-controller", "helm-controller"] {
        let labels = json!({"app": name});
        all.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "flux-system"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "x"}]}},
            },
        }));
    }
    all.iter().fold(String::new(), |text, manifest| format!("{text}---\n{manifest}\n"))
}

/// What links the edge to its repository, as the centre's set-up has it.
fn self_link() -> String {
    let configuration: Configuration =
        serde_json::from_value(json!({"chart": CLUSTER, "name": "Nord", "namespace": NAMESPACE})).unwrap();
    flux_template(&configuration).self_link
}

/// Ends the stand-ins, also where a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn pause() {
    smol::block_on(smol::Timer::after(Duration::from_millis(50)));
}

/// Stands in for the kubelet: what the program in the pod does, it does, as the pod's service account and with nothing else.
fn kubelet(server: &ApiServer, stop: &AtomicBool) {
    let admin = server.client(&server.admin());
    let pod = format!("/api/v1/namespaces/{NAMESPACE}/pods/edge-bootstrap");
    while !stop.load(Relaxed) {
        let found = admin.get(&pod);
        if found.status() == 200 && found.body()["status"]["phase"] != "Succeeded" {
            let secret = admin.get(&format!("{SECRETS}/edge-bootstrap")).granted();
            assert_eq!(secret["data"]["token"], base64(token().text().as_bytes()));
            run_pod(server, &admin);
            admin.patch(&format!("{pod}/status"), &json!({"status": {"phase": "Succeeded"}})).granted();
        }
        pause();
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn run_pod(server: &ApiServer, admin: &Client) {
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/edge-bootstrap/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let granted = admin.post(&account, &request).granted();
    let pod = server.bearer(granted["status"]["token"].as_str().unwrap());
    for name in ["krb-keys-claim", "krb-keys-keytabs", "flux-secrets"] {
        let there = pod.get(&format!("{SECRETS}/{name}")).granted();
        assert_eq!(there["metadata"]["labels"]["app.kubernetes.io/managed-by"], KEYS);
        pod.patch(&format!("{SECRETS}/{name}"), &json!({"stringData": {"password": "value"}})).granted();
    }
    // One that it could make might be a token of another account.
    let token = json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    });
    pod.post(SECRETS, &token).forbidden();
    pod.delete(&format!("{SECRETS}/flux-secrets"), &json!({})).forbidden();
    // These Secrets only, and nothing else.
    pod.get(SECRETS).forbidden();
    pod.get(&format!("{SECRETS}/edge-bootstrap")).forbidden();
    pod.patch(&format!("{SECRETS}/of-others"), &json!({"stringData": {"key": "x"}})).forbidden();
    pod.get("/api/v1/nodes").forbidden();
    pod.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps")).forbidden();
    pod.get("/api/v1/namespaces/kube-system/secrets").forbidden();
}

/// Stands in for Flux: its pods are there, and what it is asked to look at, it has looked at.
fn flux(server: &ApiServer, stop: &AtomicBool) {
    let admin = server.client(&server.admin());
    let available = json!({"type": "Available", "status": "True", "lastUpdateTime": null, "lastTransitionTime": null});
    let objects = [("source.toolkit.fluxcd.io", "gitrepositories"), ("kustomize.toolkit.fluxcd.io", "kustomizations")];
    while !stop.load(Relaxed) {
        let deployments = admin.get("/apis/apps/v1/namespaces/flux-system/deployments");
        for deployment in deployments.body()["items"].as_array().into_iter().flatten() {
            if deployment["status"]["conditions"].is_null() {
                let name = deployment["metadata"]["name"].as_str().unwrap();
                let path = format!("/apis/apps/v1/namespaces/flux-system/deployments/{name}/status");
                admin.patch(&path, &json!({"status": {"conditions": [available]}})).granted();
            }
        }
        for (group, plural) in objects {
            let path = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}/self-link");
            let found = admin.get(&path);
            let asked = &found.body()["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
            if asked.is_string() && *asked != found.body()["status"]["lastHandledReconcileAt"] {
                let ready = json!([{"type": "Ready", "status": "True"}]);
                let status = json!({"lastHandledReconcileAt": asked, "conditions": ready});
                admin.patch(&format!("{path}/status"), &json!({"status": status})).granted();
            }
        }
        pause();
    }
}

fn run(server: &ApiServer) -> Output {
    let directory = tempfile::tempdir().unwrap();
    symlink(program("kubectl"), directory.path().join("kubectl")).unwrap();
    let (flux, link) = (flux_system(), self_link());
    let script = stored("Nord", NAMESPACE, &[("flux-system.yaml", &flux), ("self-link.yaml", &link)]);
    std::fs::write(directory.path().join("script.sh"), script.for_reader(&token()).text()).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.arg(directory.path().join("script.sh")).env_clear().env("HOME", directory.path()).env("LATCHKEY_LIMIT", "60");
    shell.env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()));
    shell.env("KUBECONFIG", server.kubeconfig("admin", &server.admin()));
    output(&mut shell).unwrap()
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_cluster_joins_joins_again_and_nothing_of_others_is_written_over() {
    let server = ApiServer::start();
    let admin = server.client(&server.admin());
    admin.post("/api/v1/nodes", &json!({"metadata": {"name": "host-1"}})).granted();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&stop);
        let stand_ins = [scope.spawn(|| kubelet(&server, &stop)), scope.spawn(|| flux(&server, &stop))];
        for _ in 0..2 {
            let done = run(&server);
            let (said, why) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            assert!(done.status.success() && why.is_empty(), "{said}{why}");
            assert!(said.ends_with("The edge cluster Nord has joined.\n"), "{said}");
            // The token is gone with everything that could use it.
            for path in ["/api/v1/namespaces/fplus-edge/pods/edge-bootstrap", &format!("{SECRETS}/edge-bootstrap")] {
                latchkey_test_support::until("the end of what the bootstrap made", || {
                    (admin.get(path).status() == 404).then_some(())
                });
            }
        }
        drop(End(&stop));
        for stand_in in stand_ins {
            stand_in.join().unwrap();
        }
    });
    let namespace = admin.get("/api/v1/namespaces/fplus-edge").granted();
    assert_eq!(namespace["metadata"]["annotations"]["latchkey.dev/edge-cluster"], CLUSTER.to_string());

    // Somebody else's Secret under one of the names stays as it is, and is told of.
    admin.delete(&format!("{SECRETS}/flux-secrets"), &json!({})).granted();
    let foreign = json!({"metadata": {"name": "flux-secrets"}, "stringData": {"password": "theirs"}});
    let before = admin.post(SECRETS, &foreign).granted();
    let done = run(&server);
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && why.contains("a Secret flux-secrets that somebody else made"), "{why}");
    let after: Value = admin.get(&format!("{SECRETS}/flux-secrets")).granted();
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}
