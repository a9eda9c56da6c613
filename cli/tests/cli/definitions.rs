//! Custom resource definitions in a chart's `crds` directory, with stock helm, stock kubectl and a real API server.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;

use crate::support::cluster::Cluster;
use serde_json::json;

/// A chart of a definition in its `crds` directory; the column tells one from the next.
fn chart_with_definition(cluster: &Cluster, column: &str) {
    cluster.chart("sample", "1.0.0");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [{"name": column, "type": "string", "jsonPath": ".spec.size"}],
            }],
        },
    });
    fs::create_dir_all(cluster.path("sample/crds")).unwrap();
    fs::write(cluster.path("sample/crds/widgets.yaml"), definition.to_string()).unwrap();
}

fn column(cluster: &Cluster) -> String {
    let path = "--output=jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}";
    cluster.kubectl(&["get", "customresourcedefinitions", "widgets.example.com", "--ignore-not-found", path])
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn definitions_of_a_chart_are_made_once_or_with_each_upgrade_or_never() {
    let cluster = Cluster::start();
    let says = |crds: &str| {
        let chart =
            json!({"name": "one", "namespace": "apps", "chart": {"directory": "sample"}, "wait": 30, "crds": crds});
        fs::write(cluster.path("charts.json"), json!({"schema": 1, "charts": [chart]}).to_string()).unwrap();
    };
    chart_with_definition(&cluster, "first");
    says("never");
    cluster.install(&[]).succeeded();
    assert_eq!(column(&cluster), "", "nothing was made");
    cluster.helm(&["uninstall", "one", "--namespace=apps"]);
    says("once");
    cluster.install(&[]).succeeded();
    assert_eq!(column(&cluster), "first");

    chart_with_definition(&cluster, "second");
    for crds in ["once", "never"] {
        says(crds);
        let ran = cluster.upgrade(&[]).succeeded();
        assert!(ran.out.contains("is as the file says"), "{crds}: {}", ran.out);
        assert_eq!((column(&cluster).as_str(), cluster.backups()), ("first", 0));
    }

    // A definition alone is a change, and is shown.
    says("upgrade");
    let shown = cluster.upgrade(&["--dry-run"]).succeeded().out;
    assert!(shown.contains("one: changed CustomResourceDefinition widgets.example.com"), "{shown}");
    assert!(shown.contains("\"name\": \"first\"") && shown.contains("\"name\": \"second\""), "{shown}");
    assert_eq!((column(&cluster).as_str(), cluster.backups()), ("first", 0), "a dry run changes nothing");
    cluster.upgrade(&[]).succeeded();
    assert_eq!((column(&cluster).as_str(), cluster.backups(), cluster.history("one").len()), ("second", 1, 2));
    let ran = cluster.upgrade(&[]).succeeded();
    assert!(ran.out.contains("is as the file says") && cluster.backups() == 1, "{}", ran.out);

    // What the API server does not take is no half of an upgrade.
    chart_with_definition(&cluster, "");
    let error = cluster.upgrade(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!((&error["code"], column(&cluster).as_str()), (&json!("api-server-refused-object"), "second"), "{error}");
    assert!(error["message"].as_str().unwrap().starts_with("one: "), "{error}");
    assert_eq!(cluster.history("one").len(), 2);
}
