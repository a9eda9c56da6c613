//! Deployments of the centre as objects of Flux.

use latchkey_edge_sync::deployments::{MANAGED_BY, MANAGER};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::{EDGE_DEPLOYMENT, HELM_CHART_TEMPLATE};
use latchkey_factory_plus::uuids::class;
use latchkey_test_support::{block_on, until};
use serde_json::{Value, json};

use crate::centre::CLUSTER;
use crate::edge::{Edge, NAMESPACE};

pub(crate) const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/fplus-edge/helmreleases";
pub(crate) const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/fplus-edge/gitrepositories";
const REPOSITORY: Uuid = Uuid::constant("5e5e5e5e-c1c1-41c1-81c1-c1c1c1c1c1c1");

impl Edge {
    pub(crate) fn entry(&self, host: Option<&str>, values: &Value) -> Value {
        let mut entry = json!({"createdAt": "2026-01-01T00:00:00Z", "name": "Line 1", "cluster": CLUSTER, "chart": self.centre.local.agent_chart, "values": values});
        if let Some(host) = host {
            entry["hostname"] = json!(host);
        }
        entry
    }

    pub(crate) fn object(&self, path: &str, name: &str) -> Option<Value> {
        let answer = self.admin.get(&format!("{path}/{name}"));
        (answer.status() == 200).then(|| answer.body().clone())
    }

    /// Another chart, of a repository of its own.
    pub(crate) fn custom_chart(&self, repository: Uuid) -> Uuid {
        let (_, chart) = block_on(self.centre.db().create_object(class::HELM_CHART, None)).unwrap();
        self.centre.put(
            HELM_CHART_TEMPLATE,
            chart.uuid,
            &json!({"chart": "charts/x", "prefix": "x", "source": repository, "values": {}}),
        );
        chart.uuid
    }
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_deployment_becomes_a_release_follows_its_entry_and_goes_with_it() {
    let edge = Edge::start();
    let uuid = edge.centre.deploy(&edge.entry(Some("m1"), &json!({"deep": {"a": 1}})));
    let other =
        edge.centre.deploy(&json!({"name": "other", "cluster": REPOSITORY, "chart": edge.centre.local.agent_chart}));
    let name = format!("edge-agent-{uuid}");
    let release = until("the release", || edge.object(RELEASES, &name));
    assert_eq!(release["metadata"]["labels"][MANAGED_BY], MANAGER);
    assert_eq!(release["metadata"]["labels"]["factoryplus.app.amrc.co.uk/uuid"], json!(uuid));
    let fields = &release["metadata"]["managedFields"][0];
    assert_eq!((fields["manager"].as_str(), fields["operation"].as_str()), (Some(MANAGER), Some("Apply")));
    let values = json!({
        "cluster": "Bolt", "realm": "EXAMPLE.ORG", "directory_url": edge.centre.directory(), "uuid": uuid, "name": "Line 1",
        "hostname": "m1", "deep": {"a": 1},
    });
    assert_eq!(release["spec"]["values"], values);
    assert_eq!(release["spec"]["chart"]["spec"]["sourceRef"], json!({"kind": "GitRepository", "name": "helm-charts"}));
    // Flux writes a status, which is not ours to take away.
    let status = json!({"status": {"observedGeneration": 1}});
    edge.admin.patch(&format!("{RELEASES}/{name}/status"), &status).granted();
    edge.centre.put(EDGE_DEPLOYMENT, uuid, &edge.entry(None, &json!({"deep": {"b": 2}})));
    let changed = until("the release's new values", || {
        edge.object(RELEASES, &name).filter(|release| release["spec"]["values"]["deep"] == json!({"b": 2}))
    });
    assert_eq!(changed["spec"]["values"].get("hostname"), None);
    assert_eq!(changed["status"], status["status"]);
    assert_eq!(edge.object(RELEASES, &format!("edge-agent-{other}")), None);
    edge.centre.remove(EDGE_DEPLOYMENT, uuid);
    until("the release to be gone", || edge.object(RELEASES, &name).is_none().then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_others_change_or_delete_of_a_release_is_put_right_and_what_is_theirs_stays() {
    let edge = Edge::start();
    let theirs = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "theirs"}, "spec": {"x": 1},
    });
    edge.make(RELEASES, &theirs);
    let uuid = edge.centre.deploy(&edge.entry(None, &json!({"a": 1})));
    let name = format!("edge-agent-{uuid}");
    let release = until("the release", || edge.object(RELEASES, &name));
    edge.admin.patch(&format!("{RELEASES}/{name}"), &json!({"spec": {"values": {"a": 2}}})).granted();
    until("the value to be ours again", || {
        edge.object(RELEASES, &name).filter(|release| release["spec"]["values"]["a"] == 1)
    });
    edge.admin.delete(&format!("{RELEASES}/{name}"), &json!({})).granted();
    let again = until("the release to be there again", || edge.object(RELEASES, &name));
    assert_ne!(again["metadata"]["uid"], release["metadata"]["uid"]);
    assert!(edge.object(RELEASES, "theirs").is_some());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_chart_of_another_repository_brings_its_source_and_both_go_together() {
    let edge = Edge::start();
    let mut entry = edge.entry(None, &json!({}));
    entry["chart"] = json!(edge.custom_chart(REPOSITORY));
    let uuid = edge.centre.deploy(&entry);
    let (source, release) = (format!("helm-{REPOSITORY}"), format!("x-{uuid}"));
    let made = until("the source", || edge.object(SOURCES, &source));
    assert_eq!(made["spec"]["url"], format!("{}/uuid/{REPOSITORY}", edge.centre.git));
    assert_eq!(made["spec"]["secretRef"]["name"], "flux-secrets");
    let release = until("the release", || edge.object(RELEASES, &release));
    assert_eq!(release["spec"]["chart"]["spec"]["sourceRef"]["name"], json!(source));
    edge.centre.remove(EDGE_DEPLOYMENT, uuid);
    until("both to be gone", || {
        (edge.object(SOURCES, &source).is_none() && edge.object(RELEASES, &format!("x-{uuid}")).is_none()).then_some(())
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_deployment_that_cannot_be_made_any_more_stays_and_is_told_and_goes_on_when_it_can() {
    let edge = Edge::start();
    let uuid = edge.centre.deploy(&edge.entry(None, &json!({})));
    let name = format!("edge-agent-{uuid}");
    let release = until("the release", || edge.object(RELEASES, &name));
    let chart = edge.centre.local.agent_chart;
    let template = block_on(edge.centre.db().entry::<Value>(HELM_CHART_TEMPLATE, chart)).unwrap().unwrap().0;
    edge.centre.remove(HELM_CHART_TEMPLATE, chart);
    let said = edge.centre.until("what is wrong", |status| Some(status["errors"].as_array()?.first()?.clone()));
    assert!(
        said.as_str().unwrap().contains(&format!("deployment {uuid}: there is no Helm chart template of {chart}")),
        "{said}"
    );
    assert_eq!(edge.object(RELEASES, &name).unwrap()["metadata"]["uid"], release["metadata"]["uid"]);
    edge.centre.put(HELM_CHART_TEMPLATE, chart, &template);
    edge.centre.until("nothing to be wrong", |status| status.get("errors").is_none().then_some(()));
    assert_eq!(NAMESPACE, release["metadata"]["namespace"].as_str().unwrap());
}
