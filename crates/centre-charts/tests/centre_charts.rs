//! Our chart as an edge gets it: the values that the centre's templates make, stock helm, and a real API server that is asked whether
//! it would take what comes of it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latchkey_api_server_rig::{ApiServer, program};
use latchkey_centre_charts::edge_cluster;
use latchkey_centre_setup::{Local, Setup, Site};
use latchkey_cluster_manager::manifests::{Repositories, Repository, Templates, repository};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{application, k8s_resource};
use latchkey_test_support::output;
use serde_json::{Value, json};
use tempfile::TempDir;

const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const NAMESPACE: &str = "fplus-edge";
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";

/// The repository of a cluster, as the centre's set-up makes it.
fn made(scheme: &str, configuration: &Value) -> Repository {
    let url = |name: &str| format!("{scheme}://{name}.example.org");
    let site: Site = serde_json::from_value(json!({
        "realm": "EXAMPLE.ORG", "domain": "example.org", "prefix": "ACME", "administrator": "admin",
        "authority": if scheme == "https" { AUTHORITY } else { "" },
        "images": {"prefix": "registry.example.org:5000/l/", "digests": {"edge-sync": format!("sha256:{}", "0a".repeat(32))}},
        "urls": {
            "directory": url("directory"), "config_db": url("configdb"), "auth": url("auth"), "git": url("git"),
            "cluster_manager": url("clusters"), "mqtt": "mqtts://mqtt.example.org:8883",
        },
    }))
    .unwrap();
    let local = Local::new();
    let configs = Setup::new(&site, &local).unwrap().config_db.configs;
    let templates = Templates {
        flux: configs[&application::FLUX_TEMPLATE][&application::FLUX_TEMPLATE].clone(),
        chart: configs[&application::HELM_CHART_TEMPLATE][&local.cluster_chart].clone(),
        helm_release: configs[&application::K8S_RESOURCE_TEMPLATE][&k8s_resource::HELM_RELEASE].clone(),
    };
    let mut entry = json!({"chart": local.cluster_chart, "name": "Nord", "namespace": NAMESPACE});
    entry.as_object_mut().unwrap().extend(configuration.as_object().unwrap().clone());
    let repositories = Repositories { git: url("git"), helm: local.helm_charts };
    repository(CLUSTER, &serde_json::from_value(entry).unwrap(), &repositories, &templates).unwrap()
}

/// The values of its `HelmRelease`.
fn values(scheme: &str, configuration: &Value) -> Value {
    let release: Value =
        serde_saphyr::from_str(&made(scheme, configuration).files["edo/cluster/edge-cluster.yaml"]).unwrap();
    release["spec"]["values"].clone()
}

/// The chart in a directory, with a stand-in for the chart of Sealed Secrets below it where a version is named.
fn chart(sealed_secrets: Option<&str>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("edge-cluster");
    let mut files = edge_cluster(sealed_secrets);
    if let Some(version) = sealed_secrets {
        let about = format!("apiVersion: v2\nname: sealed-secrets\nversion: {version}\n");
        files.insert("charts/sealed-secrets/Chart.yaml".into(), about.into());
        let stand_in = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Values.fullnameOverride }}\n  namespace: {{ .Values.namespace }}\n";
        files.insert("charts/sealed-secrets/templates/stand-in.yaml".into(), stand_in.into());
    }
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (directory, root)
}

fn helm(arguments: &[&str], chart: &Path, values: &Value) -> Output {
    let file = chart.with_file_name("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let mut helm = Command::new(program("helm"));
    helm.args(arguments).arg(chart).arg("--values").arg(file).args(["--namespace", NAMESPACE]);
    output(helm.env_clear().env("HOME", chart.parent().unwrap())).unwrap()
}

fn rendered(values: &Value, sealed_secrets: Option<&str>) -> String {
    let (_directory, root) = chart(sealed_secrets);
    let name = format!("edge-cluster-{CLUSTER}");
    let made = helm(&["template", &name, "--include-crds", "--kube-version", "1.34.4"], &root, values);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

fn manifests(text: &str) -> BTreeMap<(String, String), Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let key = |manifest: &Value| {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (word(&manifest["kind"]), word(&manifest["metadata"]["name"]))
    };
    all.into_iter().filter(Value::is_object).map(|manifest| (key(&manifest), manifest)).collect()
}

#[test]
#[ignore = "needs helm: ./dev e2e api-server"]
fn helm_takes_the_chart_with_the_values_of_the_centre() {
    for (scheme, more) in
        [("https", json!({})), ("http", json!({"bare": true, "values": {"sealedSecrets": {"enabled": false}}}))]
    {
        for sealed in [None, Some("2.13.3")] {
            let (_directory, root) = chart(sealed);
            let said = helm(&["lint", "--strict"], &root, &values(scheme, &more));
            assert!(
                said.status.success(),
                "{}{}",
                String::from_utf8_lossy(&said.stdout),
                String::from_utf8_lossy(&said.stderr)
            );
        }
    }
    let all = manifests(&rendered(&values("https", &json!({})), Some("2.13.3")));
    let find = |kind: &str, name: &str| {
        all.get(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("{kind} {name}"))
    };
    for name in ["krb-keys", "edge-sync", "edge-monitor"] {
        let pod = &find("Deployment", name)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        let file = format!("/etc/latchkey/{name}.json");
        let wanted = if name == "krb-keys" { json!(["run", "--config", file]) } else { json!(["--config", file]) };
        assert_eq!(container["args"], wanted);
        let config: Value = serde_json::from_str(
            find("ConfigMap", &format!("{name}-config"))["data"][format!("{name}.json")].as_str().unwrap(),
        )
        .unwrap();
        assert_eq!(config["cluster"], json!({"uuid": CLUSTER, "name": "Nord"}));
        assert_eq!(config["centre"]["directory"], "https://directory.example.org");
        assert_eq!(find("ConfigMap", &format!("{name}-config"))["data"]["ca.pem"], AUTHORITY);
    }
    let image = |name: &str| find("Deployment", name)["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image("edge-sync"), format!("registry.example.org:5000/l/edge-sync@sha256:{}", "0a".repeat(32)));
    assert_eq!(image("krb-keys"), format!("registry.example.org:5000/l/krb-keys:{}", env!("CARGO_PKG_VERSION")));
    for (name, role) in [("op1sync", "sync"), ("op1monitor", "monitor")] {
        let key = &find("KerberosKey", name)["spec"];
        assert_eq!(
            (&key["type"], &key["principal"]),
            (&json!("Password"), &json!(format!("op1{role}/Nord@EXAMPLE.ORG")))
        );
        assert_eq!(key["secret"], format!("{name}/password"));
    }
    // The chart below ours has the values of `sealedSecrets`, and is left out where somebody else brings it.
    assert_eq!(find("ConfigMap", "sealed-secrets")["metadata"]["namespace"], "sealed-secrets");
    let bare = json!({"bare": true, "values": {"sealedSecrets": {"enabled": false}}});
    let all = manifests(&rendered(&values("https", &bare), Some("2.13.3")));
    assert!(!all.contains_key(&("ConfigMap".to_owned(), "sealed-secrets".to_owned())));
}

#[test]
#[ignore = "needs helm: ./dev e2e api-server"]
fn values_that_mean_something_else_are_refused() {
    let (_directory, root) = chart(None);
    for (pointer, bad) in [
        ("/cluster/name", json!("a'b")),
        ("/cluster/name", json!("123")),
        ("/cluster/name", json!(123)),
        ("/cluster/name", json!("a\nb")),
        ("/cluster/uuid", json!("$(x)")),
        ("/cluster/directory", json!("https://a b")),
        ("/centre/authority", json!("x")),
        ("/centre/authority", json!("")),
        ("/centre/insecure", json!("false")),
        ("/centre/mqtt", json!("http://h")),
        ("/krb5/realm", json!("R\n[x]")),
        ("/krb5/kdc", json!("kdc\n}")),
        ("/images/prefix", json!("no-slash")),
        ("/images/digests/edge-sync", json!("latest")),
        ("/uuid/group/edgeSync", json!("x")),
    ] {
        let mut values = values("https", &json!({}));
        *values.pointer_mut(pointer).unwrap() = bad.clone();
        let said = helm(&["template", "x"], &root, &values);
        assert!(!said.status.success(), "{pointer} {bad}");
        let said = String::from_utf8_lossy(&said.stderr);
        let field = pointer.rsplit('/').next().unwrap();
        assert!(said.contains(field), "{pointer} {bad}: {said}");
    }
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn an_api_server_takes_every_manifest_and_none_has_a_right_too_many() {
    let server = ApiServer::start();
    let admin = server.client(&server.admin());
    let labels =
        json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"});
    for (name, labels) in [(NAMESPACE, labels), ("sealed-secrets", json!({}))] {
        admin.post("/api/v1/namespaces", &json!({"metadata": {"name": name, "labels": labels}})).granted();
    }
    let kubeconfig = server.kubeconfig("admin", &server.admin());
    let directory = tempfile::tempdir().unwrap();
    let kubectl = |arguments: &[&str], text: &str| {
        let file = directory.path().join("manifests.yaml");
        fs::write(&file, text).unwrap();
        let mut kubectl = Command::new(program("kubectl"));
        kubectl.args(arguments).arg("-f").arg(file).arg("--kubeconfig").arg(&kubeconfig);
        let done = output(&mut kubectl).unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        // Warnings are of pods that the namespace's level would refuse, and of fields that nobody knows.
        assert!(!said.contains("Warning"), "{said}");
    };
    let text = rendered(&values("https", &json!({})), None);
    let parts: Vec<&str> = text.split("---\n").filter(|part| part.contains("kind: ")).collect();
    let (definitions, others): (Vec<&str>, Vec<&str>) =
        parts.into_iter().partition(|part| part.contains("\nkind: CustomResourceDefinition"));
    assert_eq!(definitions.len(), 2);
    kubectl(&["apply", "--server-side", "--validate=strict"], &definitions.join("---\n"));
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kerberos-keys.factoryplus.app.amrc.co.uk";
    latchkey_test_support::until("the definition", || {
        let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        admin.get(definition).granted()["status"]["conditions"].as_array()?.iter().any(is).then_some(())
    });
    kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict"], &others.join("---\n"));
    kubectl(&["apply", "--server-side", "--validate=strict"], &others.join("---\n"));
    // What the definition says of keys.
    let keys = format!("/apis/factoryplus.app.amrc.co.uk/v1/namespaces/{NAMESPACE}/kerberos-keys");
    let key = |name: &str, spec: Value| {
        let body = json!({
            "apiVersion": "factoryplus.app.amrc.co.uk/v1", "kind": "KerberosKey", "metadata": {"name": name}, "spec": spec,
        });
        admin.post(&keys, &body).status()
    };
    assert_eq!(
        key("a", json!({"type": "Random", "principal": "x", "additionalPrincipals": ["y"], "secret": "a/b"})),
        201
    );
    for bad in [
        json!({"type": "Password", "principal": "x", "additionalPrincipals": ["y"], "secret": "a/b"}),
        json!({"type": "Trust", "principal": "x"}),
        json!({"type": "Other", "principal": "x"}),
        json!({"type": "Random", "principal": "x", "secret": "no-slash"}),
        json!({"type": "Random", "principal": "x", "secret": "a/b", "account": {"name": "x"}}),
    ] {
        assert_eq!(key("b", bad.clone()), 422, "{bad}");
    }
    let may = |who: &str, verb: &str, resource: &str, namespace: &str, name: &str| {
        let (group, resource) = resource.rsplit_once('/').map_or(("", resource), |(group, resource)| (group, resource));
        let attributes = json!({
            "verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name,
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": format!("system:serviceaccount:{NAMESPACE}:{who}"), "resourceAttributes": attributes},
        });
        admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).granted()["status"]["allowed"] == true
    };
    assert!(
        may("edge-sync", "watch", "nodes", "", "")
            && may("edge-sync", "patch", "helm.toolkit.fluxcd.io/helmreleases", NAMESPACE, "x")
    );
    assert!(
        may("edge-sync", "watch", "bitnami.com/sealedsecrets", "", "")
            && !may("edge-sync", "create", "bitnami.com/sealedsecrets", "", "")
    );
    assert!(
        may("edge-sync", "watch", "secrets", "sealed-secrets", "")
            && !may("edge-sync", "create", "secrets", "sealed-secrets", "")
    );
    assert!(
        may("krb-keys", "create", "secrets", NAMESPACE, "")
            && may("krb-keys", "watch", "factoryplus.app.amrc.co.uk/kerberos-keys", NAMESPACE, "")
    );
    for who in ["edge-sync", "edge-monitor"] {
        for verb in ["get", "list", "create", "update", "delete"] {
            assert!(!may(who, verb, "secrets", NAMESPACE, "op1sync"), "{who} {verb}");
        }
        assert!(!may(who, "create", "pods", NAMESPACE, ""));
    }
    assert!(
        !may("krb-keys", "get", "secrets", "sealed-secrets", "x")
            && !may("krb-keys", "get", "secrets", "kube-system", "x")
    );
    assert!(!may("krb-keys", "list", "nodes", "", "") && !may("edge-monitor", "list", "nodes", "", ""));
    assert!(!may("edge-sync", "patch", "helm.toolkit.fluxcd.io/helmreleases", "default", "x"));
}
