use serde_json::json;

use super::fixture::{HELM, repositories, templates};
use super::*;

const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");

fn configuration(more: &Value) -> Configuration {
    let mut entry = json!({"chart": HELM, "name": "Building_1", "namespace": "fplus-edge"});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(entry).unwrap()
}

fn made(more: &Value, templates: &Templates) -> Result<Repository, String> {
    repository(CLUSTER, &configuration(more), &repositories(), templates).map_err(|error| error.to_string())
}

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn a_repository_has_the_files_that_flux_applies() {
    let repository = made(&json!({"values": {"cluster": {"extra": "123"}, "krb5": null}}), &templates()).unwrap();
    let paths: Vec<_> = repository.files.keys().map(String::as_str).collect();
    let file = |name: &str| format!("edo/cluster/{name}.yaml");
    assert_eq!(
        paths,
        [
            "README.md",
            &file("edge-cluster"),
            &file("flux-system"),
            &file("helm-charts"),
            &file("secrets"),
            &file("self-link"),
            "edo/secrets/README.md"
        ]
    );
    let release = read(&repository.files[&file("edge-cluster")]);
    assert_eq!(release["metadata"]["name"], format!("edge-cluster-{CLUSTER}"));
    assert_eq!(release["metadata"]["namespace"], "fplus-edge");
    assert_eq!(release["spec"]["chart"]["spec"]["sourceRef"]["name"], "helm-charts");
    let values = json!({"cluster": {"name": "Building_1", "uuid": CLUSTER, "extra": "123"}, "krb5": null});
    assert_eq!(release["spec"]["values"], values, "the null takes the chart's default away");
    let charts = read(&repository.files[&file("helm-charts")]);
    assert_eq!(charts["spec"]["url"], format!("https://git.example.org/uuid/{HELM}"));
    assert_eq!(repository.self_link, repository.files[&file("self-link")]);
    assert!(repository.self_link.contains(&format!("https://git.example.org/uuid/{CLUSTER}")));
    assert_eq!(repository.self_link.lines().filter(|line| *line == "---").count(), 2);
    assert_eq!(
        made(&json!({"values": {"cluster": {"extra": "123"}, "krb5": null}}), &templates()).unwrap(),
        repository
    );
}

/// Otherwise a cluster that is bootstrapped anew while the repository has secrets never gets the definition that they need.
#[test]
fn secrets_are_applied_apart_once_their_definition_is_there() {
    let repository = made(&json!({}), &templates()).unwrap();
    let link: Vec<Value> = serde_saphyr::from_multiple(&repository.self_link).unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "sealedsecrets.bitnami.com",
    });
    assert_eq!(link[1]["spec"]["healthChecks"], json!([definition]));
    assert_eq!(link[1]["spec"]["path"], "./edo/cluster");
    let secrets = read(&repository.files["edo/cluster/secrets.yaml"]);
    assert_eq!(secrets["spec"]["path"], "./edo/secrets");
    assert_eq!(secrets["spec"]["dependsOn"], json!([{"name": "self-link"}]));
}

#[test]
fn a_bare_cluster_keeps_its_own_flux() {
    let repository = made(&json!({"bare": true}), &templates()).unwrap();
    assert!(!repository.files.contains_key("edo/cluster/flux-system.yaml"));
    let link: Vec<Value> = serde_saphyr::from_multiple(&repository.self_link).unwrap();
    assert_eq!(link[1]["spec"].get("healthChecks"), None, "who waits for what nobody brings, waits for ever");
}

#[test]
fn a_file_stays_in_its_directory() {
    for name in ["../x", "a/b", "..", ".", "", ".git", "a..b", "A", "a b", "a\n", "x.yaml.yaml/..", "{{helm}}x"] {
        let mut templates = templates();
        let manifest = templates.flux["helm-charts.yaml"].clone();
        templates.flux[name] = manifest;
        let error = made(&json!({}), &templates).unwrap_err();
        assert!(error.contains("names a file") || error.contains("stands inside other text"), "{name:?}: {error}");
    }
    let mut twice = templates();
    twice.flux["edge-cluster.yaml"] = "{{helm}}".into();
    assert!(made(&json!({}), &twice).unwrap_err().contains("twice"));
}

type Change<'a> = &'a dyn Fn(&mut Templates);

#[test]
fn an_error_names_the_entry_and_what_is_wrong() {
    let wrong = |change: Change<'_>| {
        let mut templates = templates();
        change(&mut templates);
        made(&json!({}), &templates).unwrap_err()
    };
    let cases: [(Change<'_>, &str); 7] = [
        (&|t| t.flux = json!([]), "the Flux template is no object of file names"),
        (&|t| t.flux["self-link"] = json!([]), "no manifests in \"self-link.yaml\""),
        (
            &|t| drop(t.flux.as_object_mut().unwrap().remove("self-link")),
            "the Flux template has no file \"self-link.yaml\"",
        ),
        (&|t| t.flux["helm-charts.yaml"]["kind"] = json!("{{gone}}"), "no texts \"apiVersion\" and \"kind\""),
        (&|t| t.flux["helm-charts.yaml"]["metadata"]["name"] = json!("A_B"), "\"metadata.name\""),
        (
            &|t| t.chart = json!({"chart": "x", "colour": 1}),
            "the Helm chart template is not what it must be: unknown field",
        ),
        (&|t| t.helm_release = json!("{{values}}x"), "the HelmRelease template: "),
    ];
    for (change, message) in cases {
        let error = wrong(change);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
}
