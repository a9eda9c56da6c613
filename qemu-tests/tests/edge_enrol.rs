//! A machine founds a cluster with the real kubeadm and registers it at a real centre, with nobody beside it but for `latchkey init`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::fleet::{Fleet, MANIFEST, MEMBER, STEP, VERSION, WAITS};
use latchkey_qemu_tests::kubernetes::{PodNetwork, Site};
use latchkey_qemu_tests::machine::HOST;
use latchkey_qemu_tests::operator::ek;
use latchkey_qemu_tests::publisher::signature;
use serde_json::{Value, json};

/// `latchkey cluster …` in the enrol service's directory.
fn operator(fleet: &Fleet, directory: &str, arguments: &[&str]) -> Value {
    let place = ["--directory", directory, "--output", "json"];
    let done = fleet.cli(&[&["cluster"], arguments, &place].concat()).unwrap();
    done.success(arguments[0]).unwrap().json()
}

/// What the operator gives the enrol service: policy, manifest, and that clusters bring their own Flux.
fn admit_the_image(fleet: &Fleet, directory: &Path) {
    let manifest = directory.join("references").join(format!("{MANIFEST}.json"));
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    let signed = PathBuf::from(fleet.path("reference.json"));
    fs::copy(signature(&signed), signature(&manifest)).unwrap();
    fs::copy(signed, &manifest).unwrap();
    fs::copy(fleet.path("policy.json"), directory.join("policy.json")).unwrap();
    let rules = directory.join("registration.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&rules).unwrap()).unwrap();
    text["bare"] = json!(true);
    fs::write(&rules, text.to_string()).unwrap();
}

/// What the operator's own Flux would define, without its fields: group, kind, plural.
const DEFINITIONS: [(&str, &str, &str); 2] = [
    ("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"),
];

fn definition((group, kind, plural): (&str, &str, &str)) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

/// As far as the pod that redeems the link: its image is on no machine yet.
#[test]
#[ignore = "a real control plane, with Kubernetes built with Go; ./dev e2e edge_enrol --ignored"]
fn a_machine_founds_a_cluster_and_registers_it_by_its_invitation() {
    let mut centre = Centre::prepared("edge-enrol-centre", false).unwrap();
    let (report, _) = centre.start().unwrap();
    let service = &report["enrol_service"];
    let [key, directory] = ["key", "directory"].map(|field| service[field].as_str().unwrap());
    let port = centre.parameters.places.enrol_service.listen.port();
    let words = format!("latchkey.centre={HOST}:{port} latchkey.centre_key={key}");
    let site = Site::with_words("edge-enrol", PodNetwork::Bridge, &words).unwrap();
    admit_the_image(&site.fleet, Path::new(directory));
    let invitation = site.fleet.path("press-4");
    operator(&site.fleet, directory, &["invite", "Press_4", "--to", &invitation]);

    let node = site.control_plane(1).unwrap().start().unwrap();
    let power_on = Instant::now();
    node.expect(WAITS, STEP).unwrap();
    site.init_with(&node, "directory", &["--invitation", &invitation]).unwrap();
    seconds("power-on to the end of init", power_on);
    node.expect(MEMBER, STEP).unwrap();
    node.expect("registered as Press_4; its manifests are applied", STEP).unwrap();
    seconds("power-on to the registration", power_on);
    let shown = centre.reported(&["show", "Press_4"]).unwrap();
    assert_eq!(shown["registration"]["ek_sha256"], ek(&node), "{shown}");
    assert_eq!((&shown["registration"]["image"]["version"], &shown["ready"]), (&json!(VERSION), &json!(true)));

    // The operator's Flux is late.
    node.expect("ensure CRDs are installed first", STEP).unwrap();
    site.apply("flux.json", &DEFINITIONS.map(definition)).unwrap();
    node.expect("waiting for the pod edge-bootstrap: Pending", STEP).unwrap();
    let told = node.console().text().matches("ensure CRDs are installed first").count();
    assert_eq!(told, 1, "it is tried often, and said once");
    seconds("power-on to the pod", power_on);
    let mark = site.ask(&["get", "namespace", "fplus-edge", "--output", "json"]).unwrap();
    let mark: Value = serde_json::from_str(&mark).unwrap();
    assert!(mark["metadata"]["annotations"]["latchkey.dev/edge-cluster"].is_string(), "{mark}");
    let objects = "pods,serviceaccounts,secrets,gitrepositories,kustomizations";
    let objects = site.ask(&["--namespace", "fplus-edge", "get", objects, "--output", "name"]).unwrap();
    for object in ["pod/edge-bootstrap", "secret/edge-bootstrap", "gitrepository", "kustomization"] {
        assert!(objects.lines().any(|line| line.starts_with(object)), "{object}: {objects}");
    }
    // It waited for nobody's word.
    let held = operator(&site.fleet, directory, &["held"]);
    assert_eq!(held["held"], json!([]), "{held}");
}
