//! An API server, or a network, that does not do what it should. Nothing is lost, and each has its reason code.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, told};
use latchkey_api_server_rig::proxy::{Fault, answer, status};
use latchkey_cluster_store::{
    NodeRecord, PendingRecord, PutError, PutRefusal, RecordStore as _, Recorded, Role, StoreError,
};
use latchkey_kubernetes_store::{ApiCode, KubernetesStore};
use latchkey_test_support::until;

fn code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Elsewhere { reason, .. } => reason.code,
        other => panic!("no code: {other}"),
    }
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn each_bad_answer_has_its_reason_code_and_the_next_try_succeeds() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let store = KubernetesStore::open(proxy.kubeconfig()).unwrap();
    let half = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 4096\r\n\r\n{\"kind\":\"Att"
        .to_vec();
    let faults = [
        (Fault::Answer(status(401)), ApiCode::NotAuthenticated),
        (Fault::Answer(status(403)), ApiCode::Forbidden),
        (Fault::Answer(status(404)), ApiCode::ResourceUnknown),
        (Fault::Answer(status(410)), ApiCode::Expired),
        (Fault::Answer(status(422)), ApiCode::Invalid),
        (Fault::Answer(status(429)), ApiCode::TooManyRequests),
        (Fault::Answer(status(500)), ApiCode::ServerError),
        (Fault::Answer(status(503)), ApiCode::Unavailable),
        (Fault::Answer(status(504)), ApiCode::TooSlow),
        (Fault::Answer(half), ApiCode::AnswerUnusable),
        (Fault::Answer(answer(201, "{}")), ApiCode::AnswerUnusable),
        (Fault::Answer(answer(201, "<html>")), ApiCode::AnswerUnusable),
        (Fault::Answer(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), ApiCode::AnswerUnusable),
        (Fault::Endless, ApiCode::AnswerUnusable),
        (Fault::Silence, ApiCode::TooSlow),
    ];
    for (number, (fault, expected)) in (1..).zip(faults) {
        let wanted = record(number, &format!("n-{number}"), number);
        proxy.arm(["POST", "attestednodes"], fault.clone(), 1);
        match put(&store, &wanted, None) {
            Err(PutError::Store(error)) => assert_eq!(code(&error), expected.as_str(), "{fault:?}: {error}"),
            other => panic!("{fault:?}: {other:?}"),
        }
        assert!(!proxy.is_armed(), "it happened");
        assert_eq!(put(&store, &wanted, None).unwrap().into_inner(), wanted, "{fault:?}");
    }
}

/// As an API server answers that has started and not read yet what it stores.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_that_asks_for_another_try_later_gets_it_when_a_service_starts() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    for (words, fault, started) in [
        (["GET", "attestednodes"], 429, true),
        (["GET", "configmaps"], 429, true),
        (["GET", "attestednodes"], 403, false),
    ] {
        proxy.arm(words, Fault::Answer(status(fault)), 1);
        assert_eq!(KubernetesStore::open(proxy.kubeconfig()).is_ok(), started, "{words:?} {fault}");
        assert!(!proxy.is_armed(), "it happened");
    }
}

/// The request that a write makes, and the write.
type Write<'a> = ([&'static str; 2], &'a dyn Fn() -> Result<(), StoreError>);

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_write_that_others_come_before_each_time_has_its_reason_code_and_succeeds_when_they_do_so_once() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let store = KubernetesStore::open(proxy.kubeconfig()).unwrap();
    let control_plane =
        NodeRecord { role: Role::ControlPlane, joining_since: Some(1_800_000_000), ..record(2, "control", 2) };
    let disk = "0a0a0a0a-0000-4000-8000-000000000003".parse().unwrap();
    let waits = PendingRecord::new(ek(3), "edge", None, disk, 1_800_000_000);
    let written = |put: Result<Recorded, PutError>| match put {
        Ok(_) => Ok(()),
        Err(PutError::Store(error)) => Err(error),
        Err(PutError::Refused(refusal)) => panic!("{refusal:?}"),
    };
    let writes: [Write<'_>; 2] = [
        (["PUT", "/leases"], &|| written(put(&store, &control_plane, None))),
        (["PUT", "/configmaps"], &|| store.turn().unwrap().hold(&waits)),
    ];
    for (request, write) in writes {
        proxy.arm(request, Fault::Answer(status(409)), usize::MAX);
        let error = write().expect_err(request[1]);
        assert_eq!(code(&error), ApiCode::Conflict.as_str(), "{error}");
        // One conflict is overcome.
        proxy.arm(request, Fault::Answer(status(409)), 1);
        write().expect(request[1]);
        assert!(!proxy.is_armed(), "it happened");
    }
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_write_whose_answer_got_lost_is_found_and_not_made_twice() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let store = KubernetesStore::open(proxy.kubeconfig()).unwrap();
    let wanted = record(1, "edge", 1);
    proxy.arm(["POST", "attestednodes"], Fault::LoseAnswer, 1);
    assert!(matches!(put(&store, &wanted, None), Err(PutError::Store(_))));
    // The record stands: whoever decided that the machine has none is told so.
    assert!(matches!(put(&store, &wanted, None), Err(PutError::Refused(PutRefusal::Overtaken))));
    assert_eq!(told(&store, &ek(1)).unwrap().into_inner(), wanted);
    assert_eq!(cluster.count("attestednodes"), 1);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_watch_that_the_server_has_forgotten_begins_anew_and_misses_nothing() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let (store, other) = (KubernetesStore::open(proxy.kubeconfig()).unwrap(), cluster.store());
    put(&other, &record(1, "n-1", 1), None).unwrap();
    until("the first to be heard of", || told(&store, &ek(1)));
    // Both ways of saying it: as the answer, and as an event.
    let event = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}}\n";
    for (number, fault) in [(2, status(410)), (3, answer(200, event))] {
        proxy.arm(["attestednodes", "watch=true"], Fault::Answer(fault), 1);
        proxy.cut();
        until("the watch to be asked for anew", || (!proxy.is_armed()).then_some(()));
        put(&other, &record(number, &format!("n-{number}"), number), None).unwrap();
        until("what came since to be heard of", || told(&store, &ek(number)));
    }
    proxy.disarm();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn while_a_listing_takes_long_new_machines_are_let_in() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let store = KubernetesStore::open(proxy.kubeconfig()).unwrap();
    let (go, held) = smol::channel::bounded(1);
    proxy.arm(["/attestednodes?", "limit="], Fault::Held(held), 1);
    until("everything to be listed anew", || (!proxy.is_armed()).then_some(()));
    for number in 1..=3 {
        put(&store, &record(number, &format!("n-{number}"), number), None).unwrap();
    }
    go.send_blocking(()).unwrap();
    put(&store, &record(4, "n-4", 4), None).unwrap();
    assert!((1..=4).all(|number| told(&store, &ek(number)).is_some()));
}

#[test]
#[ignore = "needs etcd, etcdctl, etcdutl and kube-apiserver: ./dev e2e api-server"]
fn that_etcd_was_restored_beneath_an_api_server_that_goes_on_is_said_until_that_is_started_anew() {
    let mut cluster = Cluster::start();
    let snapshot = cluster.server.snapshot_etcd();
    let store = cluster.store();
    for number in 1..=50 {
        cluster.document("latchkey-denied", &serde_json::json!({}));
        put(&store, &record(number, &format!("n-{number}"), number), None).unwrap();
    }
    cluster.server.restore_etcd_beneath(&snapshot);
    until("it to have found etcd again", || (cluster.admin.get("/readyz").status() == 200).then_some(()));
    let said = || {
        latchkey_cluster_store::RecordStore::problem(&store)
            .filter(|problem| problem.contains("start the API server anew"))
    };
    until("a record to be written and not heard of", || match put(&store, &record(99, "n-99", 99), None) {
        Err(PutError::Refused(PutRefusal::Unheard)) => Some(()),
        _ => None,
    });
    until("it to be said", said);
    cluster.server.kill_api();
    cluster.server.start_api();
    until("it to be over", || latchkey_cluster_store::RecordStore::problem(&store).is_none().then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn while_the_api_server_is_away_writes_fail_and_what_is_known_stays_known() {
    let mut cluster = Cluster::start();
    let store = cluster.store();
    let known = put(&store, &record(1, "n-1", 1), None).unwrap();
    cluster.server.kill_api();
    match put(&store, &record(2, "n-2", 2), None) {
        Err(PutError::Store(error)) => assert_eq!(code(&error), ApiCode::Unreachable.as_str(), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(told(&store, &ek(1)), Some(known));
    until("the watch to say so", || latchkey_cluster_store::RecordStore::problem(&store));
    cluster.server.start_api();
    until("writes to succeed", || put(&store, &record(2, "n-2", 2), None).ok());
    until("the watch to go on", || latchkey_cluster_store::RecordStore::problem(&store).is_none().then_some(()));
    assert!(told(&store, &ek(2)).is_some());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn without_etcd_s_quorum_a_write_says_so_in_time() {
    let mut cluster = Cluster::start();
    let store = cluster.store();
    cluster.server.kill_etcd();
    match put(&store, &record(1, "n-1", 1), None) {
        Err(PutError::Store(error)) => {
            assert!(
                [ApiCode::TooSlow, ApiCode::Unavailable, ApiCode::ServerError]
                    .map(ApiCode::as_str)
                    .contains(&code(&error)),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    cluster.server.start_etcd();
    until("writes to succeed", || match put(&store, &record(1, "n-1", 1), None) {
        Ok(_) | Err(PutError::Refused(PutRefusal::Overtaken)) => Some(()),
        Err(_) => None,
    });
    until("the record to be known", || told(&store, &ek(1)));
}
