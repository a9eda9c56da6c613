//! Machines, certificate and heartbeat in the entry at the centre.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_edge_sync::status::HEARTBEAT;
use serde_json::{Value, json};

use crate::edge::{Edge, KEYS, NAMESPACE};

pub(crate) fn names(status: &Value) -> Vec<String> {
    let hosts = status["hosts"].as_array().into_iter().flatten();
    hosts.map(|host| host["hostname"].as_str().unwrap().to_owned()).collect()
}

fn pem((year, month, day): (i32, u8, u8)) -> String {
    pem_from(year, month, day, Duration::ZERO)
}

/// A certificate that begins so long after a day.
pub(crate) fn pem_from(year: i32, month: u8, day: u8, later: Duration) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(year, month, day) + later;
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

impl Edge {
    /// A key, as the sealed-secrets controller makes one.
    pub(crate) fn key(&self, name: &str, state: &str, certificate: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "labels": {"sealedsecrets.bitnami.com/sealed-secrets-key": state}},
            "data": {"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode("hush")},
        });
        self.make(&format!("/api/v1/namespaces/{KEYS}/secrets"), &secret);
    }
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn machines_are_told_field_by_field_as_they_come_change_and_go() {
    let edge = Edge::start();
    edge.node(
        "b",
        &json!({}),
        &json!([{"key": "factoryplus.app.amrc.co.uk/specialised", "value": "gpu", "effect": "NoSchedule"}]),
    );
    edge.node("a", &json!({"node-role.kubernetes.io/control-plane": ""}), &json!([]));
    let all = |status: &Value| {
        let hosts = status["hosts"].as_array()?;
        (names(status) == ["a", "b"] && hosts.iter().all(|host| host["ready"] == true)).then(|| status.clone())
    };
    let status = edge.centre.until("both machines", all);
    let common =
        json!({"k8s_version": "v1.34.4", "arch": "amd64", "os_version": "Debian GNU/Linux 13 (trixie)", "ready": true});
    let host = |more: Value| {
        let mut host = common.clone();
        host.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        host
    };
    let wanted = json!([
        host(json!({"hostname": "a", "control_plane": true})),
        host(json!({"hostname": "b", "control_plane": false, "specialised": "gpu"})),
    ]);
    assert_eq!(status["hosts"], wanted);
    assert!(status["heartbeat"].is_u64() && status["generation"].is_u64());
    edge.kubelet("b", "Unknown");
    let later =
        edge.centre.until("b not to be ready", |status| (status["hosts"][1]["ready"] == false).then(|| status.clone()));
    assert!(later["generation"].as_u64() > status["generation"].as_u64());
    edge.admin.delete("/api/v1/nodes/a", &json!({})).granted();
    edge.centre.until("a to be gone", |status| (names(status) == ["b"]).then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_new_key_of_sealed_secrets_is_told_within_ten_seconds_and_an_old_or_compromised_one_is_not() {
    let edge = Edge::start();
    let (first, second) = (pem((2025, 1, 1)), pem((2025, 6, 1)));
    let is = |wanted: &str| {
        let wanted = wanted.trim().to_owned();
        move |status: &Value| (status["kubeseal_cert"].as_str().map(str::trim) == Some(&wanted)).then_some(())
    };
    edge.key("first", "active", &first);
    edge.centre.until("the first key", is(&first));
    let begun = Instant::now();
    edge.key("second", "active", &second);
    edge.centre.until("the second key", is(&second));
    let took = begun.elapsed();
    println!("a new key was told after {} ms", took.as_millis());
    assert!(took < Duration::from_secs(10), "{took:?}");
    edge.key("older", "active", &pem((2024, 1, 1)));
    edge.key("compromised", "compromised", &pem((2025, 12, 1)));
    // What was made after them is told, and they are not.
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    assert!(is(&second)(&edge.centre.status().unwrap()).is_some());
    let label = json!({"metadata": {"labels": {"sealedsecrets.bitnami.com/sealed-secrets-key": "compromised"}}});
    edge.admin.patch(&format!("/api/v1/namespaces/{KEYS}/secrets/second"), &label).granted();
    edge.centre.until("the first key again", is(&first));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn nothing_is_written_where_nothing_changed_but_the_heartbeat() {
    let mut edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    let before = edge.centre.until("a machine", |status| (status["hosts"][0]["ready"] == true).then(|| status.clone()));
    // The kubelet says the same again, and Edge Sync starts again.
    edge.kubelet("a", "True");
    edge.kill_sync();
    edge.start_sync();
    let beat = |status: &Value| status["heartbeat"].as_u64();
    let later = edge.centre.until("a heartbeat", |status| (beat(status) > beat(&before)).then(|| status.clone()));
    let mut wanted = before.clone();
    wanted["heartbeat"] = later["heartbeat"].clone();
    assert_eq!(later, wanted, "the generation, too");
    let mut told = edge.centre.watch();
    let next = told.until("the next heartbeat", |status| (beat(status) > beat(&later)).then(|| status.clone()));
    wanted["heartbeat"] = next["heartbeat"].clone();
    assert_eq!(next, wanted);
    let apart = beat(&next).unwrap() - beat(&later).unwrap();
    assert!((HEARTBEAT..HEARTBEAT + 30_000).contains(&apart), "{apart} ms");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn sealed_secrets_that_the_controller_cannot_open_are_told_until_it_can() {
    let edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    // Sealed Secrets comes later than Edge Sync, which is nothing wrong.
    edge.define("bitnami.com", "v1alpha1", "SealedSecret", "sealedsecrets");
    edge.key("first", "active", &pem((2025, 1, 1)));
    let path = format!("/apis/bitnami.com/v1alpha1/namespaces/{NAMESPACE}/sealedsecrets");
    let says = |name: &str, status: &str, message: &str| {
        let condition = json!({"type": "Synced", "status": status, "message": message});
        edge.admin.patch(&format!("{path}/{name}/status"), &json!({"status": {"conditions": [condition]}})).granted();
    };
    for name in ["lost", "open"] {
        edge.make(
            &path,
            &json!({"apiVersion": "bitnami.com/v1alpha1", "kind": "SealedSecret", "metadata": {"name": name}}),
        );
    }
    says("open", "True", "");
    says("lost", "False", "no key could decrypt secret (password)");
    let told = edge.centre.until("the problem", |status| status["errors"].as_array().cloned());
    let wanted = format!(
        "the sealed secret {NAMESPACE}/lost is not opened (no key could decrypt secret (password)): seal each of its keys anew"
    );
    assert_eq!(told, [json!(wanted)]);
    says("lost", "True", "");
    edge.centre.until("the end of the problem", |status| status["errors"].is_null().then_some(()));
}
