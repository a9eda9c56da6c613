//! A STAND-IN for Flux's helm-controller, which no Go module has in a form that builds here: it runs real helm for each `HelmRelease`,
//! with the chart that the source's stand-in fetched, and fills the status. It works when a test tells it to. Its kind is defined
//! without its fields, which the controller's module has and no other.

use std::fs;
use std::process::Command;

use latchkey_api_server_rig::Client;
use latchkey_qemu_tests::kubernetes::program;
use latchkey_qemu_tests::process::output;
use serde_json::{Value, json};

use crate::rig::Site;

fn releases(site: &Site) -> String {
    format!("/apis/helm.toolkit.fluxcd.io/v2/namespaces/{}/helmreleases", site.edge.namespace)
}

/// The definition of its kind.
pub(crate) fn definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "helmreleases.helm.toolkit.fluxcd.io" },
        "spec": {
            "group": "helm.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": { "kind": "HelmRelease", "plural": "helmreleases", "singular": "helmrelease", "listKind": "HelmReleaseList" },
            "versions": [{
                "name": "v2", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Installs, or upgrades, what every `HelmRelease` of the namespace asks for: their names.
pub(crate) fn reconcile(site: &Site, admin: &Client) -> Vec<String> {
    let all = admin.get(&releases(site)).granted();
    let all = all["items"].as_array().unwrap();
    all.iter().map(|release| installed(site, admin, release)).collect()
}

fn installed(site: &Site, admin: &Client, release: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{release}")).to_owned();
    let (name, spec) = (text(&release["metadata"]["name"]), &release["spec"]);
    let chart = &spec["chart"]["spec"];
    let chart = site.source.clone_of(&text(&chart["sourceRef"]["name"])).join(text(&chart["chart"]));
    let values = site.place.join(format!("{name}.json"));
    fs::write(&values, spec["values"].to_string()).unwrap();
    let mut helm = Command::new(program("helm").unwrap());
    helm.args(["upgrade", "--install", &name]).arg(chart).arg("--values").arg(values);
    helm.args(["--namespace", &site.edge.namespace, "--kubeconfig"]).arg(site.kubeconfig());
    output(helm.env_clear().env("HOME", &site.place)).unwrap();
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "installed by stock helm",
        "lastTransitionTime": release["metadata"]["creationTimestamp"],
    });
    let status =
        json!({ "status": { "observedGeneration": release["metadata"]["generation"], "conditions": [ready] } });
    admin.patch(&format!("{}/{name}/status", releases(site)), &status).granted();
    name
}
