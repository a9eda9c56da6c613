//! The services as pods: what the chart makes of an image that is named, as the API server takes it.

use crate::api_server::cluster::Cluster;
use latchkey_api_server_rig::program;
use latchkey_kubernetes_store::NAMESPACE;
use latchkey_test_support::output;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";

impl Cluster {
    /// The chart with other values.
    fn upgrade(&self, values: &[String]) -> Output {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/latchkey");
        let kubeconfig = self.server.kubeconfig("helm", &self.server.admin());
        let mut helm = Command::new(program("helm"));
        helm.args(["upgrade", "latchkey"]).arg(chart).arg("--kubeconfig").arg(kubeconfig);
        helm.args(["--namespace", NAMESPACE]);
        output(helm.args(values.iter().flat_map(|value| ["--set", value]))).unwrap()
    }
}

#[test]
#[ignore = "needs a real API server: ./dev e2e api-server"]
fn services_are_pods_of_control_planes_where_an_image_is_named_by_its_digest_and_not_by_itself() {
    let cluster = Cluster::start();
    assert_eq!(cluster.admin.get(DAEMON_SETS).granted()["items"], Value::Array(Vec::new()));

    let refused = cluster.upgrade(&["pods.joinService.image=registry.example/join-service:0.1.0".to_owned()]);
    assert!(!refused.status.success(), "a tag names no image: it may be another one tomorrow");

    let image = format!("registry.example/join-service@sha256:{}", "ab".repeat(32));
    let made =
        cluster.upgrade(&[format!("pods.joinService.image={image}"), "pods.joinService.adminPort=9111".to_owned()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(String::from_utf8_lossy(&made.stdout).contains("nothing measures them"));
    let sets = cluster.admin.get(DAEMON_SETS).granted();
    assert_eq!(sets["items"].as_array().unwrap().len(), 1, "{sets}");
    let pod = &sets["items"][0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], image.as_str());
    assert_eq!(container["args"], serde_json::json!(["--config", "/etc/latchkey/join-service.json"]));
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], 9111);
    assert!(pod["nodeSelector"].get("node-role.kubernetes.io/control-plane").is_some(), "{pod}");
    assert_eq!(pod["automountServiceAccountToken"], false);
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]));
    assert_eq!(
        (&security["readOnlyRootFilesystem"], &security["allowPrivilegeEscalation"]),
        (&true.into(), &false.into())
    );
    assert_eq!(container["volumeMounts"][0]["readOnly"], true);
}
