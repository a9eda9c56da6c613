//! The join service's own credentials in an attacker's hands, in a real API server with our chart: `./dev e2e api-
//! server`.

use super::cluster::{NAMESPACE, REQUESTS, SECRETS, approved, denied, post, shared, token};
use super::csr::Csr;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_kubelet_certificates::{CLIENT_SIGNER, SERVING_SIGNER, TOKEN_GROUP};
use serde_json::{Value, json};

/// What is looked for in every answer.
const SECRET: &str = "the-secret-of-somebody-else";

const RBAC: &str = "rbac.authorization.k8s.io";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

fn with(mut value: Value, path: &str, new: Value) -> Value {
    *value.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = new;
    value
}

fn add(mut value: Value, path: &str, key: &str, new: Value) -> Value {
    value.pointer_mut(path).unwrap_or_else(|| panic!("{path}"))[key] = new;
    value
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_service_makes_tokens_of_tickets_and_ends_them() {
    let cluster = shared();
    let holder = cluster.token("honest");
    // What `kubeadm join` asks with it. Nodes are not in RBAC's roles before kubeadm was here: these two are.
    post(&holder, "honest", CLIENT_SIGNER, &Csr::node("honest").pem());
    let ended = cluster.service.delete(&format!("{SECRETS}/bootstrap-token-honest"), &json!({}));
    assert_eq!(ended.body()["kind"], "Status", "{}", ended.text());
    ended.granted();
    latchkey_test_support::until("the token to be unknown", || (holder.get("/version").status() == 401).then_some(()));
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_service_reads_changes_and_deletes_no_secret() {
    let cluster = shared();
    let secret = json!({"metadata": {"name": "treasure"}, "stringData": {"key": SECRET}});
    cluster.admin.post(SECRETS, &secret).granted();
    cluster.admin.post("/api/v1/namespaces/default/secrets", &secret).granted();
    let treasures = [format!("{SECRETS}/treasure"), "/api/v1/namespaces/default/secrets/treasure".to_owned()];
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    for treasure in &treasures {
        let folder = treasure.trim_end_matches("/treasure");
        for query in ["", "?dryRun=All"] {
            let at = |path: &str| format!("{path}{query}");
            for answer in [
                cluster.service.get(&at(treasure)),
                cluster.service.get(&at(folder)),
                cluster.service.put(&at(treasure), &secret),
                cluster.service.patch(&at(treasure), &change),
                cluster.service.delete(&at(treasure), &json!({})),
                cluster.service.delete(&at(folder), &json!({})),
                cluster.service.post(&at(folder), &secret),
            ] {
                assert!(!answer.text().contains(&STANDARD.encode(SECRET)), "{}", answer.text());
                answer.forbidden();
            }
        }
        let apply = "application/apply-patch+yaml";
        let applied = cluster.service.send("PATCH", &format!("{treasure}?fieldManager=x"), apply, b"{}".to_vec());
        applied.unwrap().forbidden();
        let watched = cluster.service.get(&format!("{folder}?watch=true&timeoutSeconds=1"));
        watched.forbidden();
        assert_eq!(cluster.admin.get(treasure).granted()["data"]["key"], STANDARD.encode(SECRET));
    }
    cluster.service.get("/api/v1/secrets").forbidden();
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn no_delete_answers_with_a_secret() {
    let cluster = shared();
    let foreign = with(
        token("kubadm", "system:bootstrappers:kubeadm:default-node-token"),
        "/data/token-secret",
        json!(STANDARD.encode(SECRET)),
    );
    let finalized = add(token("finals", TOKEN_GROUP), "/metadata", "finalizers", json!(["example.com/stay"]));
    let finalized = with(finalized, "/data/token-secret", json!(STANDARD.encode(SECRET)));
    let ours = with(token("shown0", TOKEN_GROUP), "/data/token-secret", json!(STANDARD.encode(SECRET)));
    for secret in [&foreign, &finalized, &ours] {
        cluster.admin.post(SECRETS, secret).granted();
    }
    let refused = |id: &str, query: &str, options: &str| {
        let path = format!("{SECRETS}/bootstrap-token-{id}{query}");
        let answer = cluster.service.send("DELETE", &path, "application/json", options.into()).unwrap();
        assert!(!answer.text().contains(&STANDARD.encode(SECRET)), "{}", answer.text());
        answer.forbidden();
    };
    for query in ["", "?dryRun=All"] {
        for (word, value) in [
            ("propagationPolicy", json!("Foreground")),
            ("propagationPolicy", json!("Orphan")),
            ("orphanDependents", json!(true)),
            ("orphanDependents", json!(false)),
        ] {
            refused("shown0", query, &json!({word: value}).to_string());
        }
        refused("finals", query, "");
        refused("kubadm", query, "");
    }
    refused("shown0", "?propagationPolicy=Foreground", "");
    refused("shown0", "?orphanDependents=true", "");
    // The fault is theirs, not ours: an administrator is shown the Secret.
    let path = format!("{SECRETS}/bootstrap-token-shown0?dryRun=All");
    let shown = cluster.admin.delete(&path, &json!({"propagationPolicy": "Foreground"}));
    assert!(shown.text().contains(&STANDARD.encode(SECRET)), "{}", shown.text());
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_service_makes_no_token_of_a_service_account_and_none_of_foreign_groups() {
    let cluster = shared();
    let account = json!({
        "metadata": {
            "name": "bootstrap-token-accoun",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
        "type": "kubernetes.io/service-account-token",
    });
    cluster.service.post(SECRETS, &account).forbidden();
    let account_named = with(account, "/metadata/name", json!("default-token"));
    cluster.service.post(SECRETS, &account_named).forbidden();
    let groups = [
        "system:bootstrappers:kubeadm:default-node-token",
        "system:bootstrappers:latchkey,system:bootstrappers:kubeadm:default-node-token",
        "system:bootstrappers:latchkey2",
        "system:masters",
        "",
    ];
    let good = || token("strang", TOKEN_GROUP);
    let mut bad: Vec<Value> = groups.iter().map(|groups| token("strang", groups)).collect();
    bad.push(with(good(), "/type", json!("Opaque")));
    bad.push(with(good(), "/metadata/name", json!("treasure-2")));
    bad.push(with(good(), "/metadata/name", json!("bootstrap-token-strang2")));
    bad.push(with(good(), "/metadata", json!({"generateName": "bootstrap-token-"})));
    bad.push(add(good(), "/data", "usage-bootstrap-signing", json!(STANDARD.encode("true"))));
    bad.push(add(good(), "/data", "more", json!("")));
    bad.push(add(good(), "/metadata", "finalizers", json!(["example.com/stay"])));
    // Without an end, without a group; and a group that comes by another way.
    for key in ["expiration", "auth-extra-groups"] {
        let mut without = good();
        without["data"].as_object_mut().unwrap().remove(key);
        bad.push(without.clone());
        let groups = json!({"auth-extra-groups": "system:bootstrappers:other", "expiration": "2999-01-01T00:00:00Z"});
        if key == "auth-extra-groups" {
            bad.push(add(without, "", "stringData", groups));
        }
    }
    bad.push(add(good(), "", "stringData", json!({"auth-extra-groups": "system:bootstrappers:other"})));
    for token in bad {
        for query in ["", "?dryRun=All"] {
            cluster.service.post(&format!("{SECRETS}{query}"), &token).forbidden();
        }
    }
    cluster.service.post("/api/v1/namespaces/default/secrets", &good()).forbidden();
    cluster.service.post("/api/v1/namespaces/kube-system/serviceaccounts/default/token", &json!({})).forbidden();
    cluster.service.post(SECRETS, &good()).granted();
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_service_approves_kubelets_of_tickets_and_nodes_and_nobody_else() {
    let cluster = shared();
    let holder = cluster.token("approv");
    cluster.admin.post(SECRETS, &token("stran2", "system:bootstrappers:other")).granted();
    // As kubeadm binds its own group.
    let binding = json!({
        "metadata": {"name": "other-node-bootstrapper"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:bootstrappers:other"}],
    });
    cluster.admin.post(BINDINGS, &binding).granted();
    let strange = cluster.holder("stran2");
    let (pem, boss) = (Csr::node("edge-1").pem(), Csr::of("bosses", "boss").pem());
    let requests = [
        post(&holder, "foreign-signer", "kubernetes.io/kube-apiserver-client", &boss),
        post(&holder, "example-signer", "example.com/signer", &boss),
        post(&holder, "serving-of-token", SERVING_SIGNER, &Csr::node("edge-1").names(&["edge-1"], &[]).pem()),
    ];
    let only_approval = [
        post(&strange, "foreign-group", CLIENT_SIGNER, &pem),
        post(&cluster.admin, "serving-of-admin", SERVING_SIGNER, &Csr::node("edge-1").names(&["edge-1"], &[]).pem()),
    ];
    let put = |request: &Value, status: Value| {
        let path = format!("{REQUESTS}/{}/approval", request["metadata"]["name"].as_str().unwrap());
        cluster.service.put(&path, &add(request.clone(), "", "status", status))
    };
    for request in requests.iter().chain(&only_approval) {
        put(request, approved()).forbidden();
    }
    // Signers that are not ours it cannot even deny.
    for request in &requests[..2] {
        put(request, denied()).forbidden();
    }
    for request in [&requests[2]].into_iter().chain(&only_approval) {
        put(request, denied()).granted();
    }
    // What it approves it changes in no other way.
    let own = post(&holder, "own", CLIENT_SIGNER, &Csr::node("edge-1").pem());
    for (key, value) in
        [("labels", json!({"a": "b"})), ("annotations", json!({"a": "b"})), ("finalizers", json!(["a/b"]))]
    {
        let changed = add(own.clone(), "/metadata", key, value);
        put(&changed, approved()).forbidden();
    }
    let status = format!("{REQUESTS}/own/status");
    cluster.service.put(&status, &add(own.clone(), "", "status", json!({"certificate": "AAAA"}))).forbidden();
    cluster.service.patch(&format!("{REQUESTS}/own/approval"), &json!({"status": approved()})).forbidden();
    cluster.service.delete(&format!("{REQUESTS}/own"), &json!({})).forbidden();
    cluster.service.post(REQUESTS, &super::cluster::request("its-own", CLIENT_SIGNER, &pem)).forbidden();
    put(&own, approved()).granted();
    let serving = post(
        &cluster.node("edge-1"),
        "own-serving",
        SERVING_SIGNER,
        &Csr::node("edge-1").names(&["edge-1"], &[]).pem(),
    );
    put(&serving, approved()).granted();
    let renewal = post(&cluster.node("edge-1"), "renewal", CLIENT_SIGNER, &pem);
    put(&renewal, approved()).granted();
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_service_holds_one_lease_and_gets_no_further() {
    let cluster = shared();
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = cluster.service.get(&format!("{leases}/latchkey")).granted();
    let held = add(lease, "", "spec", json!({"holderIdentity": "edge-1"}));
    cluster.service.put(&format!("{leases}/latchkey"), &held).granted();
    let other = json!({"metadata": {"name": "other"}, "spec": {}});
    cluster.admin.post(&leases, &other).granted();
    let binding = json!({
        "metadata": {"name": "boss"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": super::cluster::SERVICE}],
    });
    for path in [
        &leases,
        &format!("{leases}/other"),
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/api/v1/namespaces/kube-system/configmaps",
        "/api/v1/namespaces/kube-system/serviceaccounts",
        BINDINGS,
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/apis/apps/v1/deployments",
    ] {
        cluster.service.get(path).forbidden();
        cluster.service.delete(path, &json!({})).forbidden();
    }
    cluster.service.post(&leases, &with(other, "/metadata/name", json!("new"))).forbidden();
    cluster.service.post(BINDINGS, &binding).forbidden();
    let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/latchkey-token-create";
    let policy_binding =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/latchkey-token-create";
    for path in [policy, policy_binding] {
        cluster.service.delete(path, &json!({})).forbidden();
        cluster.service.patch(path, &json!({"spec": {"failurePolicy": "Ignore"}})).forbidden();
    }
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_tickets_token_may_ask_for_a_certificate_and_little_else() {
    let cluster = shared();
    let holder = cluster.token("narrow");
    let own = post(&holder, "narrow", CLIENT_SIGNER, &Csr::node("narrow").pem());
    holder.get(&format!("{REQUESTS}/narrow")).granted();
    let approval = add(own, "", "status", approved());
    holder.put(&format!("{REQUESTS}/narrow/approval"), &approval).forbidden();
    for path in [SECRETS, "/api/v1/secrets", "/api/v1/pods", "/api/v1/namespaces/kube-system/configmaps"] {
        holder.get(path).forbidden();
    }
    holder.post(SECRETS, &token("stolen", TOKEN_GROUP)).forbidden();
    let selfish = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let nodeclient = json!({
        "group": "certificates.k8s.io",
        "resource": "certificatesigningrequests",
        "subresource": "nodeclient",
        "verb": "create",
    });
    let review = json!({"spec": {"resourceAttributes": nodeclient}});
    let answer = holder.post(selfish, &review);
    assert!(answer.status() == 403 || answer.body()["status"]["allowed"] == json!(false), "{}", answer.text());
}
