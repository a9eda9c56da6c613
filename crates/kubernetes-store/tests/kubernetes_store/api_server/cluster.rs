//! An API server with our resources in it, and records to put there.

use latchkey_api_server_rig::proxy::Proxy;
use latchkey_api_server_rig::{ApiServer, Client, program};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{News, NodeRecord, PutError, RecordStore as _, Recorded, Role};
use latchkey_kubernetes_store::{GROUP, KubernetesStore, NAMESPACE, VERSION};
use latchkey_test_support::{output, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) admin: Client,
}

/// The join service, as the chart's values call it.
pub(crate) const SERVICE: &str = "latchkey:join-service";

impl Cluster {
    pub(crate) fn start() -> Self {
        let server = ApiServer::start();
        let admin = server.client(&server.admin());
        let cluster = Self { server, admin };
        cluster.install();
        cluster.document("latchkey-denied", &json!({}));
        cluster
    }

    /// Our chart, by the stock helm, and waits until it is in force: the store has exactly the rights that the chart gives.
    fn install(&self) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/latchkey");
        let kubeconfig = self.server.kubeconfig("helm", &self.server.admin());
        let mut helm = Command::new(program("helm"));
        helm.args(["upgrade", "--install", "latchkey"]).arg(chart).arg("--kubeconfig").arg(kubeconfig);
        helm.args(["--namespace", NAMESPACE, "--create-namespace"]);
        let installed = output(&mut helm).unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let path = resource("attestednodes", "");
        until("records to be served", || (self.admin.get(&path).status() == 200).then_some(()));
        let service = self.service();
        until("the service's rights to be in force", || {
            let (nodes, map) = (resource("attestednodes", ""), map("latchkey-pending"));
            (service.get(&nodes).status() == 200 && service.get(&map).status() == 200).then_some(())
        });
    }

    /// A network that does harm, on the service's way to the API server.
    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::before(&self.server, &self.server.user(SERVICE, None))
    }

    /// Whoever has the join service's credentials.
    pub(crate) fn service(&self) -> Client {
        self.server.client(&self.server.user(SERVICE, None))
    }

    /// A store of its own, as another service has.
    pub(crate) fn store(&self) -> KubernetesStore {
        let kubeconfig = self.server.kubeconfig("join-service", &self.server.user(SERVICE, None));
        KubernetesStore::open(&kubeconfig).unwrap()
    }

    /// Makes a `ConfigMap`, or replaces it.
    pub(crate) fn document(&self, name: &str, data: &Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": NAMESPACE }, "data": data,
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        if self.admin.post(&path, &map).status() == 409 {
            self.admin.put(&format!("{path}/{name}"), &map).granted();
        }
    }

    /// Writes an object of ours, past all services.
    pub(crate) fn by_hand(&self, ek: &EkDigest, change: impl FnOnce(&mut Value)) {
        let path = resource("attestednodes", &ek.to_string());
        let mut object = self.admin.get(&path).granted();
        change(&mut object);
        self.admin.put(&path, &object).granted();
    }

    pub(crate) fn count(&self, plural: &str) -> usize {
        self.admin.get(&resource(plural, "")).granted()["items"].as_array().unwrap().len()
    }
}

/// The path of a `ConfigMap`.
pub(crate) fn map(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}").trim_end_matches('/').to_owned()
}

pub(crate) fn resource(plural: &str, name: &str) -> String {
    format!("/apis/{GROUP}/{VERSION}/{plural}/{name}").trim_end_matches('/').to_owned()
}

pub(crate) fn ek(number: u64) -> EkDigest {
    EkDigest::from_hex(&format!("{number:064x}")).unwrap()
}

pub(crate) fn record(number: u64, name: &str, disk: u64) -> NodeRecord {
    let uuid = format!("0a0a0a0a-0000-4000-8000-{disk:012x}").parse().unwrap();
    NodeRecord::first(ek(number), name.parse().unwrap(), Role::Worker, uuid, 1, 1_800_000_000)
}

pub(crate) fn put(
    store: &KubernetesStore,
    record: &NodeRecord,
    before: Option<&Recorded>,
) -> Result<Recorded, PutError> {
    store.turn().unwrap().put(record, before)
}

/// The record of this machine, as the next news of this store tells it.
pub(crate) fn told(store: &KubernetesStore, of: &EkDigest) -> Option<Recorded> {
    store.doubt();
    match store.turn().unwrap().news().unwrap() {
        News::All(listing) => listing.records.into_iter().find(|record| record.ek_sha256 == *of),
        other => panic!("everything was asked for: {other:?}"),
    }
}
