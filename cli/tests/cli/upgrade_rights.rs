//! `latchkey upgrade store` on a cluster in its API server: what the join service may do there, and an `allow` that was cut.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;

use crate::support::plant::{Plant, error_code};
use crate::support::stand_in::{SERVICE, StandIn};
use latchkey_test_support::{output, until};
use serde_json::{Value, json};

const SHOW: &[&str] = &["upgrade", "store"];
const CODE: &str = "api-chart-not-upgraded";

/// That it is shown what is amiss, and that nothing is made.
fn is_refused(plant: &StandIn, amiss: &[&str]) {
    let shown = plant.run(SHOW).failed(1).json();
    assert_eq!((&shown["rights"], &shown["lacking"]), (&json!(amiss), &json!(true)), "{shown}");
    let ran = plant.run(&["upgrade", "store", "--denials", "0"]).failed(1);
    assert_eq!(error_code(&ran), CODE);
    let error = ran.json()["error"].clone();
    assert_eq!(error["because"], json!(amiss));
    assert!(error["fix"].as_str().unwrap().contains("latchkey upgrade execute --helm"), "{error}");
    assert_eq!(plant.changes(), [] as [String; 0]);
}

#[test]
fn nothing_is_made_while_the_join_service_has_not_the_rights_of_this_release_and_no_others() {
    let plant = StandIn::new();
    let user = |name: &str| json!([{ "kind": "User", "name": name }]);
    fs::write(plant.path("nodeclaims.latchkey.dev.json"), "{}").unwrap();
    plant.run(SHOW).succeeded();
    // The chart of before: the service could not delete a record that came second, and the ones that run still claim.
    plant.rights(&user(SERVICE), &[(SERVICE, "create nodeclaims")]);
    let deletes = format!("{SERVICE} may not delete attestednodes");
    let claims = format!("{SERVICE} may create nodeclaims, as in releases before");
    is_refused(&plant, &[&deletes, &claims]);
    plant.rights(&user(SERVICE), &[]);
    is_refused(&plant, &[&deletes]);
    plant.rights(&user(SERVICE), &[(SERVICE, "delete attestednodes"), (SERVICE, "create nodeclaims")]);
    is_refused(&plant, &[&claims]);
    // A right in what is gone gives nothing.
    fs::remove_file(plant.path("nodeclaims.latchkey.dev.json")).unwrap();
    plant.run(SHOW).succeeded();
    plant.run(&["upgrade", "store", "--denials", "0"]).succeeded();
}

/// The chart's values say who the service is.
#[test]
fn whose_rights_are_asked_for_is_whom_the_chart_binds_them_to() {
    let plant = StandIn::new();
    let deletes = "delete attestednodes";
    let account = "system:serviceaccount:plant:joins";
    for subject in [
        json!({ "kind": "User", "name": account }),
        json!({ "kind": "ServiceAccount", "name": "joins", "namespace": "plant" }),
    ] {
        plant.rights(&json!([subject]), &[(SERVICE, deletes)]);
        is_refused(&plant, &[&format!("{account} may not delete attestednodes")]);
        plant.rights(&json!([subject]), &[(account, deletes)]);
        plant.run(SHOW).succeeded();
    }
    // Each of several has to have them.
    let both = ["one", "other"].map(|name| json!({ "kind": "User", "name": name }));
    plant.rights(&json!(both), &[("one", deletes)]);
    is_refused(&plant, &["other may not delete attestednodes"]);
    for nobody in [json!([]), Value::Null] {
        let nobody = json!({ "subjects": nobody });
        fs::write(plant.path("latchkey-records.json"), nobody.to_string()).unwrap();
        if nobody["subjects"].is_null() {
            fs::remove_file(plant.path("latchkey-records.json")).unwrap();
        }
        is_refused(&plant, &["no ClusterRoleBinding latchkey-records names a join service"]);
    }
}

#[test]
fn an_allow_that_was_cut_is_shown_and_its_confirmation_ends_version_3() {
    let plant = StandIn::new();
    let [one, other] = ["ab", "cd"].map(|byte| byte.repeat(32));
    let document = || {
        let text = plant.data("latchkey-cluster")["cluster.json"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    // Before its last step, and before its entry was removed.
    for (listed, denied, count) in
        [(json!({ &other: "" }), json!([other]), 1), (json!({ &one: "", &other: "" }), json!([one, other]), 2)]
    {
        plant.map("latchkey-denied", &listed);
        plant.counted(&json!({ "count": 1, "leaving": [one] }));
        assert_eq!(document()["version"], 3);
        let shown = plant.run(SHOW).failed(1).json();
        assert_eq!((&shown["leaving"], &shown["denied"]), (&json!([one]), &denied), "{shown}");
        assert_eq!(document()["version"], 3, "it was shown, and nothing was changed");
        plant.run(&["upgrade", "store", "--denials", &count.to_string()]).succeeded();
        let settled = document();
        assert_eq!((&settled["version"], &settled["denials"]), (&json!(2), &json!({ "count": count })));
        assert_eq!(plant.data("latchkey-denied"), listed, "nobody was let in who was shut out");
        assert!(plant.run(SHOW).succeeded().json().get("leaving").is_none());
    }
    // The same command ends it, too.
    plant.map("latchkey-denied", &json!({ &other: "" }));
    plant.counted(&json!({ "count": 1, "leaving": [one] }));
    plant.run(&["node", "allow", &one]).succeeded();
    assert_eq!(document()["denials"], json!({ "count": 1 }));
}

/// A copy of the chart with the rights of before: those of 0.3.0, and the definition that they are in.
fn chart_of_before(plant: &Plant) -> String {
    let chart = plant.operator.path("before");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/latchkey");
    fs::create_dir_all(chart.join("templates")).unwrap();
    for directory in ["", "templates"] {
        for entry in fs::read_dir(source.join(directory)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), chart.join(directory).join(entry.file_name())).unwrap();
            }
        }
    }
    let records = chart.join("templates/records.yaml");
    let now = fs::read_to_string(&records).unwrap();
    let verbs = "create, update, delete]}";
    let claims = "- {apiGroups: [latchkey.dev], resources: [nodeclaims], verbs: [get, create, update, delete]}";
    let before = now.replace(verbs, &format!("create, update]}}\n{claims}"));
    assert_ne!(before, now);
    fs::write(records, before).unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "nodeclaims.latchkey.dev", "annotations": { "helm.sh/resource-policy": "keep" } },
        "spec": {
            "group": "latchkey.dev", "scope": "Cluster",
            "names": { "kind": "NodeClaim", "listKind": "NodeClaimList", "plural": "nodeclaims", "singular": "nodeclaim" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    fs::write(chart.join("templates/claims.yaml"), definition.to_string()).unwrap();
    chart.display().to_string()
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager, kubectl and helm: ./dev e2e api-server"]
fn a_chart_of_before_is_refused_and_what_the_refusal_names_brings_that_of_now() {
    let plant = Plant::new();
    plant.init(&[]).succeeded();
    plant.machines(SHOW).succeeded();
    let kubeconfig = plant.operator.path("plant/admin.conf");
    let mut helm = std::process::Command::new(&plant.helm);
    helm.args(["upgrade", "latchkey", &chart_of_before(&plant), "--namespace=latchkey"]);
    let installed = output(helm.arg("--kubeconfig").arg(&kubeconfig)).unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    // Rights are in force some moments after they are there.
    let amiss = json!([
        "latchkey:join-service may not delete attestednodes",
        "latchkey:join-service may create nodeclaims, as in releases before",
    ]);
    until("the rights of before to be in force", || (plant.machines(SHOW).json()["rights"] == amiss).then_some(()));
    plant.machines(SHOW).failed(1);
    assert_eq!(error_code(&plant.machines(&["upgrade", "store", "--denials", "0"]).failed(1)), CODE);

    let charts = json!({ "schema": 1, "charts": [{ "name": "latchkey", "namespace": "latchkey", "chart": {
        "directory": Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/latchkey"),
    } }] });
    fs::write(plant.operator.path("charts.json"), charts.to_string()).unwrap();
    let helm = plant.helm.to_str().unwrap();
    plant
        .by_kubeconfig(&["upgrade", "execute", "--helm", "--charts", "charts.json", "--helm-program", helm])
        .succeeded();
    // The definition stays, and nobody has a right in it.
    until("the rights of now to be in force", || plant.machines(SHOW).json().get("rights").is_none().then_some(()));
    plant.machines(&["upgrade", "store", "--denials", "0"]).succeeded();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.latchkey.dev";
    plant.admin.get(definition).granted();
}
