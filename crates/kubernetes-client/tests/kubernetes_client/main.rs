//! A follower and single requests against a real API server with a real etcd: `./dev e2e api-server`.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, too")]

use std::collections::BTreeMap;

use latchkey_api_server_rig::ApiServer;
use latchkey_api_server_rig::proxy::{Fault, Proxy, status};
use latchkey_kubernetes_client::k8s_openapi::api::core::v1::ConfigMap;
use latchkey_kubernetes_client::kube::Api;
use latchkey_kubernetes_client::{ApiCode, Connection, Follower, Objects, Standing};
use latchkey_test_support::{block_on, within};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MOST: usize = 8;

struct Rig {
    server: ApiServer,
    proxy: Proxy,
    connection: Connection,
}

impl Rig {
    fn start() -> Self {
        let server = ApiServer::start();
        let proxy = Proxy::before(&server, &server.admin());
        let connection = Connection::open(proxy.kubeconfig()).unwrap();
        Self { server, proxy, connection }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.connection.client(), "default")
    }

    fn put(&self, name: &str, value: &str) {
        let admin = self.server.client(&self.server.admin());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"mine": "yes"}}, "data": {"v": value}});
        if admin.post(MAPS, &map).status() == 409 {
            admin.put(&format!("{MAPS}/{name}"), &map).granted();
        }
    }

    fn delete(&self, name: &str) {
        self.server.client(&self.server.admin()).delete(&format!("{MAPS}/{name}"), &json!({})).granted();
    }

    fn follow(&self) -> Follower<String> {
        let objects = Objects {
            about: "configmaps",
            api: self.api(),
            labels: "mine=yes".to_owned(),
            fields: String::new(),
            page: 3,
            most: MOST,
        };
        self.connection.follow(objects, |map: ConfigMap| map.data?.remove("v"))
    }
}

fn known(follower: &Follower<String>) -> Option<BTreeMap<String, String>> {
    let objects = follower.view().objects?;
    Some(objects.iter().map(|(key, value)| (key.name.clone(), (**value).clone())).collect())
}

fn until(follower: &mut Follower<String>, what: &str, wanted: impl Fn(&Follower<String>) -> bool) {
    block_on(within(what.to_owned(), async {
        while !wanted(follower) {
            follower.changed().await;
        }
    }));
}

fn has(follower: &mut Follower<String>, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<String, String> = wanted.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    until(follower, &format!("{wanted:?}"), |follower| known(follower).as_ref() == Some(&wanted));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_follower_knows_what_there_is_over_faults_restarts_and_forgotten_watches() {
    let mut rig = Rig::start();
    for name in ["a", "b", "c", "d"] {
        rig.put(name, "1");
    }
    let mut follower = rig.follow();
    has(&mut follower, &[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
    rig.put("a", "2");
    rig.delete("b");
    has(&mut follower, &[("a", "2"), ("c", "1"), ("d", "1")]);
    for (number, fault) in [status(410), status(403), status(500)].into_iter().enumerate() {
        rig.proxy.arm(["GET", "/configmaps"], Fault::Answer(fault), 1);
        rig.proxy.cut();
        rig.put("a", &format!("f{number}"));
        has(&mut follower, &[("a", &format!("f{number}")), ("c", "1"), ("d", "1")]);
        assert!(!rig.proxy.is_armed(), "it happened");
        until(&mut follower, "to go on", |follower| follower.view().standing == Standing::Fresh);
    }
    rig.server.kill_api();
    until(&mut follower, "to be stale", |follower| matches!(follower.view().standing, Standing::Stale(_)));
    assert_eq!(known(&follower).unwrap().len(), 3, "what was known stays");
    rig.server.start_api();
    rig.delete("c");
    has(&mut follower, &[("a", "f2"), ("d", "1")]);
    until(&mut follower, "to be fresh", |follower| follower.view().standing == Standing::Fresh);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn more_objects_than_there_is_room_for_are_said_and_bounded() {
    let rig = Rig::start();
    for number in 0..2 * MOST {
        rig.put(&format!("m{number:02}"), "1");
    }
    let mut follower = rig.follow();
    let is_full = |follower: &Follower<String>| matches!(follower.view().standing, Standing::Stale(error) if error.code == ApiCode::TooManyObjects);
    until(&mut follower, "to be full", is_full);
    assert_eq!(known(&follower).unwrap().len(), MOST);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_request_from_another_runtime_is_answered_or_ends_in_time_with_its_reason() {
    let rig = Rig::start();
    rig.put("a", "1");
    let get = |name: &'static str| {
        let api = rig.api();
        block_on(rig.connection.run("configmaps", async move { api.get(name).await }))
    };
    assert_eq!(get("a").unwrap().data.unwrap()["v"], "1");
    assert_eq!(get("none").unwrap_err().code, ApiCode::ResourceUnknown);
    for (fault, code) in [
        (Fault::Silence, ApiCode::TooSlow),
        (Fault::Endless, ApiCode::AnswerUnusable),
        (Fault::Answer(status(429)), ApiCode::TooManyRequests),
    ] {
        rig.proxy.arm(["GET", "/configmaps/a"], fault.clone(), 1);
        let error = get("a").unwrap_err();
        assert_eq!(error.code, code, "{fault:?}: {error}");
        assert!(error.to_string().starts_with("configmaps: "));
    }
}
