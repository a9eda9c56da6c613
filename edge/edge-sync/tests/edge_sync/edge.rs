//! An API server with Nodes, Secrets and the kinds of Flux in it, and Edge Sync with the rights that it needs and no others.

use std::path::PathBuf;

use latchkey_api_server_rig::proxy::Proxy;
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_edge_sync::deployments::Site;
use latchkey_edge_sync::drive::EdgeSync;
use latchkey_kubernetes_client::Connection;
use latchkey_test_support::until;
use serde_json::{Value, json};
use std::path::Path;

use crate::centre::{CLUSTER, Centre, REALM};
use crate::front::Front;

pub(crate) const NAMESPACE: &str = "fplus-edge";
pub(crate) const KEYS: &str = "sealed-secrets";
const USER: &str = "edge-sync";

pub(crate) struct Edge {
    pub(crate) server: ApiServer,
    pub(crate) admin: Client,
    pub(crate) centre: Centre,
    sync: Option<smol::Task<std::convert::Infallible>>,
}

impl Edge {
    /// With the rights in place, and Edge Sync not running.
    pub(crate) fn new() -> Self {
        Self::of(Centre::start())
    }

    /// The same with a centre that Edge Sync reaches through something that does harm.
    pub(crate) fn new_behind() -> (Self, Front) {
        let (centre, front) = Centre::start_behind();
        (Self::of(centre), front)
    }

    fn of(centre: Centre) -> Self {
        let server = ApiServer::start();
        let admin = server.client(&server.admin());
        let edge = Self { server, admin, centre, sync: None };
        for namespace in [NAMESPACE, KEYS] {
            edge.make(
                "/api/v1/namespaces",
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
        }
        for (group, version, kind, plural) in [
            ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
            ("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"),
        ] {
            edge.define(group, version, kind, plural);
        }
        edge.grant_nodes();
        edge.grant(
            NAMESPACE,
            &[("helm.toolkit.fluxcd.io", "helmreleases"), ("source.toolkit.fluxcd.io", "gitrepositories")],
        );
        edge.grant(KEYS, &[("", "secrets")]);
        edge
    }

    /// The same, with Edge Sync.
    pub(crate) fn start() -> Self {
        let mut edge = Self::new();
        edge.start_sync();
        edge
    }

    pub(crate) fn start_sync(&mut self) {
        let kubeconfig = self.kubeconfig();
        self.start_sync_by(&kubeconfig);
    }

    /// Edge Sync on a way to the API server that does harm.
    pub(crate) fn start_sync_behind(&mut self, proxy: &Proxy) {
        self.start_sync_by(proxy.kubeconfig());
    }

    fn start_sync_by(&mut self, kubeconfig: &Path) {
        let site = Site {
            cluster: CLUSTER,
            name: "Bolt".parse().unwrap(),
            namespace: NAMESPACE.into(),
            realm: REALM.into(),
            directory: self.centre.directory(),
        };
        let sync = EdgeSync::new(Connection::open(kubeconfig).unwrap(), &self.centre.as_sync(), site, KEYS);
        self.sync = Some(smol::spawn(sync.run()));
    }

    /// Ends Edge Sync where it is.
    pub(crate) fn kill_sync(&mut self) {
        self.sync = None;
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig(USER, &self.server.user(USER, None))
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::before(&self.server, &self.server.user(USER, None))
    }

    pub(crate) fn make(&self, path: &str, object: &Value) -> Value {
        self.admin.post(path, object).granted()
    }

    /// A kind of somebody else's, with no more than its name: what is in it, its own definition says.
    pub(crate) fn define(&self, group: &str, version: &str, kind: &str, plural: &str) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.make(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                    "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                        "subresources": {"status": {}}}],
                },
            }),
        );
        let path = format!("/apis/{group}/{version}/{plural}");
        until(format!("{plural} to be served"), || (self.admin.get(&path).status() == 200).then_some(()));
    }

    pub(crate) fn grant_nodes(&self) {
        self.role("", "ClusterRole", &[("", "nodes"), ("bitnami.com", "sealedsecrets")], &["list", "watch"]);
    }

    pub(crate) fn revoke_nodes(&self) {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{USER}");
        self.admin.delete(&path, &json!({})).granted();
    }

    fn grant(&self, namespace: &str, resources: &[(&str, &str)]) {
        let verbs: &[&str] =
            if namespace == KEYS { &["list", "watch"] } else { &["list", "watch", "create", "patch", "delete"] };
        self.role(namespace, "Role", resources, verbs);
    }

    fn role(&self, namespace: &str, kind: &str, resources: &[(&str, &str)], verbs: &[&str]) {
        let base = match namespace {
            "" => "/apis/rbac.authorization.k8s.io/v1".to_owned(),
            namespace => format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"),
        };
        let rules: Vec<Value> = resources
            .iter()
            .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}))
            .collect();
        let api = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": api, "kind": kind, "metadata": {"name": USER}, "rules": rules});
        self.make(&format!("{base}/{}s", kind.to_lowercase()), &role);
        let binding = json!({
            "apiVersion": api, "kind": format!("{kind}Binding"), "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        });
        let path = format!("{base}/{}bindings", kind.to_lowercase());
        // The binding stays when a role is revoked.
        assert!([201, 409].contains(&self.admin.post(&path, &binding).status()));
    }

    /// A Node, as a kubelet makes one.
    pub(crate) fn node(&self, name: &str, labels: &Value, taints: &Value) {
        let mut labels = labels.clone();
        labels["kubernetes.io/hostname"] = json!(name);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        });
        self.make("/api/v1/nodes", &node);
        self.kubelet(name, "True");
    }

    /// What a kubelet says of its node; `images` are what it tells beside that.
    pub(crate) fn kubelet(&self, name: &str, ready: &str) {
        let images: Vec<Value> = (0..50)
            .map(|number| {
                json!({"names": [format!("registry.example/some/image-{number}@sha256:{}", "a".repeat(64))], "sizeBytes": number})
            })
            .collect();
        let status = json!({"status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady", "message": "posting",
                "lastHeartbeatTime": null, "lastTransitionTime": null}],
            "nodeInfo": {
                "kubeletVersion": "v1.34.4", "architecture": "amd64", "osImage": "Debian GNU/Linux 13 (trixie)",
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.12", "containerRuntimeVersion": "containerd://2.1",
                "kubeProxyVersion": "", "operatingSystem": "linux",
            },
            "images": images,
        }});
        self.admin.patch(&format!("/api/v1/nodes/{name}/status"), &status).granted();
    }
}
