//! Documents and tokens.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, map};
use latchkey_attestation::References;
use latchkey_cluster_store::{
    ClusterFile, CountedDenials, Documents as _, Enrolment, Part, PendingRecord, RecordStore as _, Role, StoreError,
};
use latchkey_keys::ClusterId;
use latchkey_kubernetes_store::tokens::DrawnToken;
use latchkey_test_support::until;
use serde_json::json;

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn rules_and_denials_are_followed_and_a_broken_document_is_named() {
    let cluster = Cluster::start();
    let store = cluster.store();
    assert!(store.enrolment().unwrap_err().to_string().contains("api-document-missing"));
    let before = store.fingerprint(Part::Enrolment);
    let rules = Enrolment::workers_and([ek(1)]);
    cluster.document("latchkey-enrolment", &json!({ "enrolment.json": serde_json::to_string(&rules).unwrap() }));
    until("the rules to be heard of", || (store.fingerprint(Part::Enrolment) != before).then_some(()));
    assert_eq!(store.enrolment().unwrap(), rules);
    cluster.document("latchkey-denied", &json!({ ek(1).to_string(): "stolen", "not-a-digest": "" }));
    let denials = until("the denial to be heard of", || store.denials().ok().filter(|denials| denials.has(&ek(1))));
    assert_eq!(denials.unreadable(), ["not-a-digest"]);
    cluster.document("latchkey-enrolment", &json!({ "enrolment.json": "{\"version\": 2}" }));
    let said = until("the broken rules to be heard of", || store.enrolment().err()).to_string();
    assert!(said.contains("latchkey-enrolment/enrolment.json") && said.contains("version"), "{said}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn denials_are_held_against_their_number_and_what_the_chart_or_init_made_is_not_made_anew() {
    let cluster = Cluster::start();
    let file = ClusterFile::new("demo", ClusterId::from_bytes([0xc1; 32]), [0x5a; 32], 1, 1_800_000_000);
    let count = |count, last| {
        let file = file.clone().counting(CountedDenials { count, last, ..CountedDenials::default() });
        cluster.document("latchkey-cluster", &json!({ "cluster.json": file.to_json() }));
    };
    count(3, Some(ek(2)));
    cluster.document("latchkey-denied", &json!({ ek(1).to_string(): "stolen" }));
    let store = cluster.store();
    let denials = store.denials().unwrap();
    assert_eq!((denials.lost(), denials.unfinished(), denials.has(&ek(2))), (2, Some(ek(2)), true));
    count(1, None);
    until("the other number", || store.denials().ok().filter(|denials| denials.lost() == 0 && !denials.has(&ek(2))));
    let refused = |error: StoreError| assert!(error.to_string().contains("cluster-place-missing"), "{error}");
    cluster.admin.delete(&map("latchkey-denied"), &json!({})).granted();
    refused(until("it to be gone", || store.denials().err()));
    for name in ["latchkey-revisions", "latchkey-pending"] {
        cluster.admin.delete(&map(name), &json!({})).granted();
    }
    refused(store.remember(&References::none(), 0).unwrap_err());
    refused(store.turn().unwrap().try_writing().unwrap_err());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn collateral_is_one_object_of_text_and_bytes_and_is_followed() {
    let cluster = Cluster::start();
    let store = cluster.store();
    assert!(store.collateral().unwrap().is_none());
    let name = "latchkey-collateral";
    // As large as the API server takes it.
    let large = "a".repeat(1024 * 1024 - 1024);
    let object = |binary: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "snp.chain.pem": large }, "binaryData": { "tpm.cloud.crl": binary },
        })
    };
    cluster.admin.post(&map(""), &object("AAEC")).granted();
    let read = || store.collateral().unwrap();
    let entries = until("the collateral to be heard of", read);
    assert_eq!((entries["snp.chain.pem"].len(), &*entries["tpm.cloud.crl"]), (large.len(), &[0, 1, 2][..]));
    cluster.admin.put(&map(name), &object("Aw==")).granted();
    until("the newer one", || read().filter(|entries| entries["tpm.cloud.crl"] == [3]));
    // The service reads it by its name, and writes none.
    cluster.service().put(&map(name), &object("BA==")).forbidden();
    cluster.admin.delete(&map(name), &json!({})).granted();
    until("it to be gone", || read().is_none().then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn machines_that_wait_are_written_down_and_no_more_than_fit() {
    let cluster = Cluster::start();
    let store = cluster.store();
    let most = latchkey_cluster_store::MAX_PENDING as u64;
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    for number in 0..most + 2 {
        let asks = PendingRecord::new(ek(number), "edge", Some(Role::Worker), disk, 1_800_000_000 + number);
        store.turn().unwrap().hold(&asks).unwrap();
    }
    let map = cluster.admin.get("/api/v1/namespaces/latchkey/configmaps/latchkey-pending").granted();
    let data = map["data"].as_object().unwrap();
    assert_eq!(data.len() as u64, most);
    assert!(!data.contains_key(&format!("{}.json", ek(1))), "those that were silent longest went");
    store.turn().unwrap().try_writing().unwrap();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_token_is_a_user_in_our_group_for_a_quarter_of_an_hour() {
    let cluster = Cluster::start();
    let token = cluster.store().issue_token(DrawnToken::draw().unwrap(), &"worker-1".parse().unwrap()).unwrap();
    let text = String::from_utf8(token.expose().to_vec()).unwrap();
    let node = cluster.server.bearer(&text);
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = until("the token to be known", || {
        let answer = node.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review);
        (answer.status() != 401).then_some(answer)
    });
    let info = answer.granted()["status"]["userInfo"].clone();
    assert_eq!(info["username"], format!("system:bootstrap:{}", token.id()));
    assert!(info["groups"].as_array().unwrap().contains(&json!("system:bootstrappers:latchkey")), "{info}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let left = token.expires_at() - i64::try_from(now).unwrap();
    assert!((800..=900).contains(&left), "{left}");
}
