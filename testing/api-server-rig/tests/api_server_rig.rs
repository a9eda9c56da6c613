//! The rig is what it says: `./dev e2e api-server`.

use latchkey_api_server_rig::{ApiServer, Setup};
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;

const TOKEN: &str = "/api/v1/namespaces/kube-system/secrets";

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_user_without_rights_gets_nothing_and_the_administrator_everything() {
    let server = ApiServer::start();
    let admin = server.client(&server.admin());
    assert_eq!(admin.get("/version").granted()["gitVersion"], latchkey_api_server_rig::VERSION);
    admin.get("/api/v1/secrets").granted();
    let eve = server.client(&server.user("eve", Some("tenants")));
    let refused = eve.get("/api/v1/secrets").forbidden();
    assert!(refused.contains("\"eve\""), "{refused}");
    assert_eq!(server.bearer("nobody").get("/version").status(), 401);
    assert_eq!(std::fs::metadata(server.kubeconfig("eve", &server.admin())).unwrap().mode() & 0o777, 0o600);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_bootstrap_token_is_its_user_and_data_outlive_a_power_failure_of_both_programs() {
    let mut server = ApiServer::start();
    let data = json!({
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:latchkey",
    });
    let token = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    });
    server.client(&server.admin()).post(TOKEN, &token).granted();
    server.kill_api();
    let admin = server.client(&server.admin());
    assert!(admin.send("GET", "/readyz", "application/json", Vec::new()).is_err(), "nobody listens");
    server.kill_etcd();
    server.start_etcd();
    server.start_api();
    let node = server.bearer("abcdef.0123456789abcdef");
    let refused = latchkey_test_support::until("the token to be known", || {
        let answer = node.get("/api/v1/secrets");
        (answer.status() != 401).then_some(answer)
    });
    assert!(refused.forbidden().contains("\"system:bootstrap:abcdef\""));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn the_controller_manager_works() {
    let server = ApiServer::with(Setup { controllers: true, ..Setup::default() });
    let admin = server.client(&server.admin());
    // It makes one in each namespace.
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let mut watch = admin.watch(path);
    watch.find("service account", |object| (object["metadata"]["name"] == "default").then_some(()));
}
