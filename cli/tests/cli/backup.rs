//! `latchkey backup`: a definition is deleted, all its objects are gone, and they come back.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::cluster::Cluster;
use crate::support::command::latchkey;
use latchkey_test_support::until;
use serde_json::{Value, json};

/// More than one page.
const WIDGETS: usize = 260;

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema, "subresources": {"status": {}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1alpha1", false), version("v1", true)],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", "labels": {"of": "mine"}, "finalizers": ["example.com/kept"]},
        "spec": {"exact": 123_456_789_012_345_678_i64, "text": "ä\n\u{2028}"},
    })
}

struct Made {
    cluster: Cluster,
    backup: String,
}

/// A cluster with a definition and many objects, and a backup of it.
fn made() -> Made {
    let cluster = Cluster::start();
    cluster.apply(&definition());
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/widgets.example.com"]);
    let mut widgets: Vec<Value> = (0..WIDGETS).map(|number| widget(&format!("w-{number}"))).collect();
    // Without a finalizer nothing holds them up when their definition goes.
    for widget in &mut widgets {
        widget["metadata"].as_object_mut().unwrap().remove("finalizers");
    }
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": widgets}));
    let status = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w-0", "namespace": "default"}, "status": {"ready": true}});
    fs::write(cluster.path("status.json"), status.to_string()).unwrap();
    let path = cluster.path("status.json").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "--subresource=status", "--field-manager=controller", "-f", &path]);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"}});
    cluster.apply(&config);
    let uid = |of: &str| cluster.kubectl(&["get", of, "--output=jsonpath={.metadata.uid}"]);
    let owner = |kind: &str, version: &str, name: &str, uid: String| json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid});
    for (name, owners) in [
        ("w-1", vec![owner("Widget", "example.com/v1", "w-0", uid("widget/w-0"))]),
        ("w-2", vec![owner("ConfigMap", "v1", "owner", uid("configmap/owner"))]),
        ("w-3", vec![owner("ConfigMap", "v1", "gone", "0-0-0".into())]),
    ] {
        let mut child = widgets[0].clone();
        child["metadata"]["name"] = json!(name);
        child["metadata"]["ownerReferences"] = json!(owners);
        cluster.apply(&child);
    }
    let report = cluster.run(&["backup", "create"], &["--output", "json"]).succeeded().json();
    assert_eq!((&report["definitions"], &report["objects"]), (&json!(1), &json!(WIDGETS)), "{report}");
    let backup = report["directory"].as_str().unwrap().to_owned();
    Made { cluster, backup }
}

/// All objects, without what the API server gives them anew.
fn widgets(cluster: &Cluster) -> Vec<Value> {
    let list: Value = serde_json::from_str(&cluster.kubectl(&["get", "widgets", "--output=json"])).unwrap();
    let mut items = list["items"].as_array().unwrap().clone();
    for item in &mut items {
        let metadata = item["metadata"].as_object_mut().unwrap();
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    items
}

fn delete_definition(cluster: &Cluster) {
    cluster.kubectl(&["delete", "crd", "widgets.example.com"]);
    until("the definition to be gone", || cluster.kubectl(&["get", "crd", "--output=name"]).is_empty().then_some(()));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_deleted_definition_comes_back_with_its_objects_their_status_and_their_owners() {
    let Made { cluster, backup } = made();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = cluster.path(&backup);
    assert_eq!(mode(&directory), 0o700);
    for file in ["backup.json", "crds/widgets.example.com.json", "crs/widgets.example.com/v1.jsonl"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    for version in ["v1", "v1alpha1"] {
        let objects = fs::read_to_string(directory.join(format!("crs/widgets.example.com/{version}.jsonl"))).unwrap();
        assert_eq!(objects.lines().count(), WIDGETS, "every version that is served");
    }
    let before = widgets(&cluster);
    let nothing = cluster.run(&["backup", "restore", &backup], &["--output", "json"]).succeeded().json();
    assert_eq!(
        (&nothing["definitions"][0]["objects_made"], &nothing["definitions"][0]["made"]),
        (&json!(0), &json!(false))
    );

    delete_definition(&cluster);
    let report = cluster.run(&["backup", "restore", &backup], &["--output", "json"]).succeeded().json();
    assert_eq!(report["definitions"][0]["objects_made"], WIDGETS, "{report}");
    assert_eq!(report["owners_gone"], json!(["w-3 (was of ConfigMap gone)"]), "{report}");
    let mut after = widgets(&cluster);
    assert_eq!(after.len(), before.len());
    let uid = cluster.kubectl(&["get", "widget/w-0", "--output=jsonpath={.metadata.uid}"]);
    for (before, after) in before.iter().zip(&mut after) {
        let name = before["metadata"]["name"].as_str().unwrap();
        let (was, is) = (&before["metadata"]["ownerReferences"], &after["metadata"]["ownerReferences"]);
        match name {
            "w-1" => assert_eq!((is[0]["name"].as_str(), is[0]["uid"].as_str()), (Some("w-0"), Some(&*uid))),
            "w-3" => assert!(was.is_array() && is.is_null(), "{after}"),
            _ => assert_eq!(was, is, "{name}"),
        }
        let mut before = before.clone();
        for one in [&mut before, &mut *after] {
            one["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        }
        assert_eq!(&before, after);
    }
    assert_eq!(after.iter().find(|one| one["metadata"]["name"] == "w-0").unwrap()["status"], json!({"ready": true}));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn what_the_api_server_refuses_is_named_and_all_else_comes_back() {
    let Made { cluster, backup } = made();
    cluster.kubectl(&["delete", "widgets", "--all"]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-seven"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["widgets"],
            }]},
            "validations": [{"expression": "!(object.metadata.name in ['w-7', 'w-250'])", "message": "no sevens here"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-seven"}, "spec": {"policyName": "no-seven", "validationActions": ["Deny"]},
    });
    cluster.apply(&policy);
    cluster.apply(&binding);
    let refused = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w-7", "namespace": "default"}, "spec": {}});
    fs::write(cluster.path("refused.json"), refused.to_string()).unwrap();
    let path = cluster.path("refused.json").display().to_string();
    until("the policy to be in force", || {
        cluster.kubectl_refuses(&["create", "--dry-run=server", "-f", &path]).then_some(())
    });

    let ran = cluster.run(&["backup", "restore", &backup], &["--output", "json"]).failed(1);
    let report = ran.json();
    let refused: Vec<&str> =
        report["refused"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(refused, ["widgets.example.com default/w-250", "widgets.example.com default/w-7"], "{report}");
    assert!(report["refused"][0]["because"].as_str().unwrap().contains("no sevens here"), "{report}");
    assert_eq!(report["definitions"][0]["objects_made"], WIDGETS - 2, "{report}");
    assert_eq!(widgets(&cluster).len(), WIDGETS - 2);
    assert_eq!(cluster.kubectl(&["get", "widget/w-0", "--output=jsonpath={.status.ready}"]), "true");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn what_is_there_is_not_overwritten_and_what_is_no_complete_backup_is_refused() {
    let Made { cluster, backup } = made();
    // One is changed, one is gone, and one has lost its status, as after an interrupted restore.
    cluster.kubectl(&["patch", "widget/w-5", "--type=merge", "--patch={\"spec\":{\"text\":\"mine\"}}"]);
    cluster.kubectl(&["delete", "widget/w-6"]);
    // One has another label, one is on its way out.
    cluster.kubectl(&["label", "widget/w-7", "--overwrite", "of=yours"]);
    cluster.kubectl(&[
        "patch",
        "widget/w-8",
        "--type=merge",
        "--patch={\"metadata\":{\"finalizers\":[\"example.com/kept\"]}}",
    ]);
    cluster.kubectl(&["delete", "widget/w-8", "--wait=false"]);
    cluster.kubectl(&[
        "patch",
        "widget/w-0",
        "--type=json",
        "--subresource=status",
        "--patch=[{\"op\":\"remove\",\"path\":\"/status\"}]",
    ]);
    let ran = cluster.run(&["backup", "restore", &backup], &["--output", "json"]).failed(1);
    let report = ran.json();
    let named = |name: &str| format!("widgets.example.com default/{name}");
    assert_eq!(report["differing"], json!([named("w-5"), named("w-7")]), "{report}");
    assert_eq!(report["being_removed"], json!([named("w-8")]), "{report}");
    assert_eq!(
        (&report["definitions"][0]["objects_made"], &report["definitions"][0]["status_written"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(cluster.kubectl(&["get", "widget/w-5", "--output=jsonpath={.spec.text}"]), "mine");
    assert_eq!(cluster.kubectl(&["get", "widget/w-0", "--output=jsonpath={.status.ready}"]), "true");

    let other = Cluster::start();
    let path = cluster.path(&backup).display().to_string();
    let error = other.run(&["backup", "restore", &path], &["--output", "json"]).failed(2).json()["error"].clone();
    assert_eq!(error["code"], "backup-of-another-cluster", "{error}");
    let made = other.run(&["backup", "restore", &path, "--any-cluster"], &[]).succeeded();
    assert!(made.out.contains("260"), "{}", made.out);

    let objects = cluster.path(&backup).join("crs/widgets.example.com/v1.jsonl");
    let whole = fs::read(&objects).unwrap();
    // The last line is gone; one letter is another.
    let end = whole.iter().rposition(|byte| *byte == b'{').unwrap();
    let before = whole[..end].iter().rposition(|byte| *byte == b'\n').unwrap();
    let shorter = whole[..=before].to_vec();
    let other =
        String::from_utf8(whole.clone()).unwrap().replacen("\"of\":\"mine\"", "\"of\":\"mime\"", 1).into_bytes();
    assert!(shorter.len() < whole.len() && other != whole);
    let damage: [&dyn Fn(); 6] = [
        &|| fs::write(&objects, &shorter).unwrap(),
        &|| fs::write(&objects, &other).unwrap(),
        &|| fs::write(&objects, &whole[..whole.len() / 2]).unwrap(),
        &|| fs::write(&objects, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap(),
        &|| fs::write(cluster.path(&backup).join("crds/widgets.example.com.json"), "{}").unwrap(),
        &|| fs::remove_file(cluster.path(&backup).join("backup.json")).unwrap(),
    ];
    for damage in damage {
        damage();
        let ran = cluster.run(&["backup", "restore", &backup], &["--output", "json"]).failed(2);
        let code = ran.json()["error"]["code"].as_str().unwrap().to_owned();
        assert!(["backup-damaged", "file-unreadable"].contains(&&*code), "{}", ran.out);
        fs::write(&objects, &whole).unwrap();
    }
    assert!(latchkey(cluster.directory.path(), &["backup", "list"]).succeeded().out.contains("no complete backup"));
}
