//! A bootstrap link, redeemed by an edge with a real API server at a real centre.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{ApiServer, is_built_or_skip};
use latchkey_factory_plus::manager::LinkState;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::edge::Edge;
use latchkey_qemu_tests::process::Finished;
use serde_json::{Value, json};

/// From the call of the program to its Secrets, on a machine that has more to do.
const GOAL: Duration = Duration::from_secs(2);
/// Lines that `krb-keys redeem` says while it works, and a few more.
const LINES: usize = 9;

fn words(done: &Finished) -> String {
    String::from_utf8_lossy(&[done.out.clone(), done.err.clone()].concat()).into_owned()
}

/// A namespace with the rights of a bootstrap pod, for a user of its own.
fn edge(api: &ApiServer, cluster: &str, name: &str, namespace: &str) -> Edge {
    let admin = api.client(&api.admin());
    admin.post("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).granted();
    let user = format!("bootstrap-{namespace}");
    let rights = Edge::rights(namespace, &user);
    assert_eq!(rights.len(), 5, "a role, its binding, three Secrets");
    for (path, object) in rights {
        admin.post(&path, &object).granted();
    }
    let kubeconfig = api.kubeconfig(&user, &api.user(&user, None));
    Edge { cluster: cluster.into(), name: name.into(), namespace: namespace.into(), kubeconfig }
}

fn secret(api: &ApiServer, edge: &Edge, name: &str) -> Value {
    api.client(&api.admin()).get(&format!("/api/v1/namespaces/{}/secrets/{name}", edge.namespace)).body().clone()
}

fn held(api: &ApiServer, edge: &Edge, name: &str, key: &str) -> Vec<u8> {
    let secret = secret(api, edge, name);
    STANDARD.decode(secret["data"][key].as_str().unwrap_or_else(|| panic!("{secret}"))).unwrap()
}

fn text(api: &ApiServer, edge: &Edge, name: &str, key: &str) -> String {
    String::from_utf8(held(api, edge, name, key)).unwrap()
}

/// Whether the keytab in the edge's Secret serves, as stock kinit sees it.
fn keytab_serves(centre: &Centre, api: &ApiServer, edge: &Edge) -> bool {
    let keytab = held(api, edge, "krb-keys-keytabs", "client");
    let keytab = centre.write_secret(&format!("{}.keytab", edge.namespace), keytab).unwrap();
    centre.kinit_by(&format!("op1krbkeys/{}", edge.name), &keytab).unwrap().status.success()
}

fn is_whole(centre: &Centre, api: &ApiServer, edge: &Edge) {
    assert!(keytab_serves(centre, api, edge));
    assert_eq!(
        text(api, edge, "flux-secrets", "username"),
        centre.parameters.upn(&format!("op1flux/{}", edge.name)).unwrap().as_str()
    );
    let password = text(api, edge, "flux-secrets", "password");
    let signed_in = centre.kinit(&format!("op1flux/{}", edge.name), &password).unwrap();
    assert!(signed_in.status.success(), "{}", words(&signed_in));
    for name in ["krb-keys-claim", "krb-keys-keytabs", "flux-secrets"] {
        let label = &secret(api, edge, name)["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        assert_eq!(label, "krbkeys.factoryplus.app.amrc.co.uk", "{name}");
    }
    let mut principals = centre.principals_of(&edge.name).unwrap();
    principals.sort();
    assert_eq!(principals, [format!("op1flux/{}", edge.name), format!("op1krbkeys/{}", edge.name)]);
    let shown = centre.kadmin_local(&format!("getprinc op1krbkeys/{}", edge.name)).unwrap();
    for line in ["Expiration date: [never]", "Password expiration date: [never]"] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn a_link_becomes_keys_that_flux_clones_the_repository_with() {
    if !is_built_or_skip() {
        return;
    }
    let (centre, api) = (Centre::started("edge-redeem").unwrap(), ApiServer::start());
    let cluster = centre.made("Nord").unwrap();
    let first = edge(&api, &cluster, "Nord", "fplus-edge");
    let token = centre.link_token("Nord").unwrap();

    let (done, time) = centre.redeem(&first, &token).unwrap();
    assert!(done.status.success(), "{}", words(&done));
    assert!(!words(&done).contains(&token), "{}", words(&done));
    eprintln!("redeemed in {time:?}; the goal is {GOAL:?}");
    is_whole(&centre, &api, &first);
    let flux = (format!("op1flux/{}", first.name), text(&api, &first, "flux-secrets", "password"));
    let to = centre.run.file("clone");
    let cloned = centre.git_clone((&flux.0, &flux.1), &format!("uuid/{cluster}"), &to).unwrap();
    assert!(cloned.status.success(), "{}", words(&cloned));
    assert!(to.join("edo/cluster/self-link.yaml").exists());

    // Again: it finds everything as it is to be, needs no link, and changes nothing.
    let versions = |edge: &Edge| {
        ["krb-keys-claim", "krb-keys-keytabs", "flux-secrets"].map(|name| secret(&api, edge, name)["metadata"].clone())
    };
    let before = versions(&first);
    let (again, _) = centre.redeem(&first, "of-no-link").unwrap();
    assert!(again.status.success(), "{}", words(&again));
    assert_eq!(versions(&first), before);

    // Somebody else has the link, too.
    let thief = edge(&api, &cluster, "Nord", "thief");
    let (refused, _) = centre.redeem(&thief, &token).unwrap();
    assert!(
        !refused.status.success() && words(&refused).contains("another edge redeemed this link"),
        "{}",
        words(&refused)
    );
    assert!(secret(&api, &thief, "flux-secrets")["data"].is_null());
    let shown = centre.reported(&["show", "Nord"]).unwrap();
    assert!(shown["theft"].as_u64().is_some(), "{shown}");
    let links = centre.ask(
        centre.admin(),
        "GET",
        latchkey_centre_site::Program::ClusterManager,
        &format!("v1/cluster/{cluster}/link"),
    );
    let links: Vec<latchkey_factory_plus::manager::Link> = serde_json::from_str(&links.unwrap().body).unwrap();
    assert_eq!(links[0].state, LinkState::Theft);
    is_whole(&centre, &api, &first);

    // New hardware for the same cluster: a new link, the same accounts; the old keys are void.
    let accounts = || centre.setup_status(&cluster).unwrap()["krbkeys"]["uuid"].clone();
    let before = accounts();
    let second = edge(&api, &cluster, "Nord", "new-hardware");
    let (done, _) = centre.redeem(&second, &centre.link_token("Nord").unwrap()).unwrap();
    assert!(done.status.success(), "{}", words(&done));
    is_whole(&centre, &api, &second);
    assert!(!keytab_serves(&centre, &api, &first));
    assert_eq!(accounts(), before);
}

#[test]
fn what_stands_in_the_way_is_told_and_costs_no_link() {
    if !is_built_or_skip() {
        return;
    }
    let (centre, api) = (Centre::started("edge-refused").unwrap(), ApiServer::start());
    let cluster = centre.made("Nord").unwrap();
    let other = centre.made("Sued").unwrap();
    let at = edge(&api, &cluster, "Nord", "fplus-edge");
    let token = centre.link_token("Nord").unwrap();
    let refused = |edge: &Edge, token: &str, why: &str| {
        let (done, _) = centre.redeem(edge, token).unwrap();
        assert!(!done.status.success() && words(&done).contains(why), "{why}: {}", words(&done));
        assert!(token.len() < 43 || !words(&done).contains(token), "{}", words(&done));
    };
    // Somebody else's Secret.
    let path = "/api/v1/namespaces/fplus-edge/secrets";
    let theirs = json!({ "metadata": { "name": "flux-secrets" }, "stringData": { "password": "theirs" } });
    let admin = api.client(&api.admin());
    let ours = secret(&api, &at, "flux-secrets")["metadata"]["labels"].clone();
    admin.delete(&format!("{path}/flux-secrets"), &json!({})).granted();
    admin.post(path, &theirs).granted();
    refused(&at, &token, "the Secret flux-secrets is not ours");
    assert_eq!(text(&api, &at, "flux-secrets", "password"), "theirs");
    admin.delete(&format!("{path}/flux-secrets"), &json!({})).granted();
    admin.post(path, &json!({ "metadata": { "name": "flux-secrets", "labels": ours } })).granted();
    // Links that are none, or are another cluster's.
    refused(&at, "short", "43 characters");
    refused(&at, &"A".repeat(43), "no such link");
    refused(&at, &centre.link_token("Sued").unwrap(), "the link is for another cluster");
    let twin = Edge { cluster: other, ..at.clone() };
    refused(&twin, &token, "the link is for another cluster");
    // Rights that are missing.
    let nobody = Edge { kubeconfig: api.kubeconfig("nobody", &api.user("nobody", None)), ..at.clone() };
    refused(&nobody, &token, "api-server-forbids");
    assert_eq!(centre.principals_of("Nord").unwrap(), [""; 0]);
    // None of that cost the link.
    let (done, _) = centre.redeem(&at, &token).unwrap();
    assert!(done.status.success(), "{}", words(&done));
    is_whole(&centre, &api, &at);

    let deleted = edge(&api, &cluster, "Nord", "deleted");
    let token = centre.link_token("Nord").unwrap();
    assert_eq!(centre.cluster(&["delete", "Nord"]).unwrap().status.code(), Some(0));
    centre.reaches(&cluster, "deleted");
    refused(&deleted, &token, "revoked");
    refused(&at, &token, "has disabled");
}

#[test]
fn killed_at_every_line_it_ends_well() {
    if !is_built_or_skip() {
        return;
    }
    let (centre, api) = (Centre::started("edge-killed").unwrap(), ApiServer::start());
    let cluster = centre.made("Nord").unwrap();
    let mut killed = 0;
    for lines in 1..LINES {
        let at = edge(&api, &cluster, "Nord", &format!("edge-{lines}"));
        let token = centre.link_token("Nord").unwrap();
        killed += usize::from(centre.redeem_killed(&at, &token, lines).unwrap());
        let (done, _) = centre.redeem(&at, &token).unwrap();
        assert!(done.status.success(), "after {lines} lines: {}", words(&done));
        is_whole(&centre, &api, &at);
    }
    assert!(killed >= 6, "{killed}");
}
