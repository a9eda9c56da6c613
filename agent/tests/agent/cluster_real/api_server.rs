//! How the API servers of a cluster run, seen at a real one (`./dev e2e api-server`): with the arguments and files that the cluster
//! step gives to kubeadm, which are a fake's here.

use crate::cluster_fake::{FakeKubeadm, member, settings};
use latchkey_agent::cluster::Work;
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api_server_rig::{ApiServer, Client, Setup};
use latchkey_test_support::until;
use serde_json::{Value, json};

const SECRET: &str = "dGhpcyBpcyBub3QgZm9yIGV0Y2QgdG8gc2VlIQ==";
const SECRET_BYTES: &[u8] = b"this is not for etcd to see!";
/// As long as a Secret's, and no secret.
const OPEN: &str = "this is for everybody to see";

/// The API server as the cluster step wants it, and the node whose files it reads.
pub(crate) fn as_the_step_wants_it() -> (ApiServer, FakeKubeadm) {
    let node = FakeKubeadm::new();
    let ran = node.run(&member(NodeRole::First), &Work::Init(settings(), None));
    assert!(ran.result.is_ok(), "{:?}", ran.result);
    let configurations = node.records("config");
    let cluster: Value =
        configurations[0].split("\n---\n").nth(1).map(|text| serde_json::from_str(text).unwrap()).unwrap();
    let arguments = cluster["apiServer"]["extraArgs"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let arguments = arguments
        .iter()
        .map(|argument| (text(&argument["name"]), text(&argument["value"])))
        // kubeadm's authority, which no kubeadm has made here.
        .filter(|(name, _)| name != "kubelet-certificate-authority")
        .collect();
    std::fs::create_dir_all(node.path("logs")).unwrap();
    (ApiServer::with(Setup { arguments, ..Setup::default() }), node)
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "hostNetwork": host_network, "automountServiceAccountToken": false,
            "containers": [{"name": "one", "image": "pause"}]
        }
    })
}

/// A namespace whose pods can be made: its service account is there.
fn namespace(admin: &Client, name: &str, labels: &Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    admin.post("/api/v1/namespaces", &object).granted();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    admin.post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).granted();
}

#[test]
#[ignore = "needs a real API server: ./dev e2e api-server"]
fn a_cluster_keeps_secrets_encrypted_pods_in_bounds_strangers_out_and_an_audit_log() {
    let (server, node) = as_the_step_wants_it();
    let admin = server.client(&server.admin());

    // Secrets.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"word": SECRET}});
    admin.post("/api/v1/namespaces/default/secrets", &secret).granted();
    let open = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"word": OPEN}});
    admin.post("/api/v1/namespaces/default/configmaps", &open).granted();
    until("etcd to write its files", || server.etcd_holds(OPEN.as_bytes()).then_some(()));
    assert!(!server.etcd_holds(SECRET_BYTES), "a Secret lies in etcd as it is");
    assert_eq!(admin.get("/api/v1/namespaces/default/secrets/s").body()["data"]["word"], SECRET);

    // Pods.
    namespace(&admin, "plain", &json!({}));
    namespace(&admin, "wide", &json!({"pod-security.kubernetes.io/enforce": "privileged"}));
    let why = admin.post("/api/v1/namespaces/plain/pods", &pod("bad", true)).forbidden();
    assert!(why.contains("baseline"), "{why}");
    admin.post("/api/v1/namespaces/plain/pods", &pod("good", false)).granted();
    admin.post("/api/v1/namespaces/wide/pods", &pod("asked", true)).granted();

    // Services that would take up anybody's address.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "greedy"},
        "spec": {"externalIPs": ["192.0.2.9"], "ports": [{"port": 80}]}
    });
    let why = admin.post("/api/v1/namespaces/plain/services", &service).forbidden();
    assert!(why.contains("external IPs"), "{why}");

    // Strangers.
    let stranger = server.bearer("none.at-all");
    assert_eq!(stranger.get("/version").status(), 401);
    let nobody = server.anonymous();
    assert_eq!(nobody.get("/livez").status(), 200);
    for path in ["/version", "/api", "/api/v1/namespaces/kube-public/configmaps/cluster-info"] {
        assert_eq!(nobody.get(path).status(), 401, "{path}");
    }
    assert_eq!(admin.get("/debug/pprof/").status(), 404);

    // What was done.
    let log = until("the audit log to tell of the pod", || {
        let log = std::fs::read_to_string(node.path("logs/audit.log")).unwrap_or_default();
        log.lines().any(|line| line.contains("/namespaces/wide/pods")).then_some(log)
    });
    assert!(
        log.lines().any(|line| line.contains("/namespaces/default/secrets/s")),
        "no word of the Secret that was read"
    );
    assert!(!log.contains(SECRET), "the audit log has a Secret");
    assert!(!log.contains("/livez"), "the audit log tells of probes");
}
