//! Templates for tests: of the shape that a site's set-up has.

use latchkey_factory_plus::Uuid;
use serde_json::json;

use super::{Repositories, Templates};

pub(crate) const HELM: Uuid = Uuid::constant("11111111-2222-4333-8444-555555555555");

pub(crate) fn repositories() -> Repositories {
    Repositories { git: "https://git.example.org/".into(), helm: HELM }
}

pub(crate) fn templates() -> Templates {
    let source = |name: &str, url: &str| {
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": name, "namespace": "{{namespace}}"},
            "spec": {"interval": "3m", "ref": {"branch": "main"}, "secretRef": {"name": "flux-secrets"}, "url": url},
        })
    };
    let kustomization = |name: &str, source: &str, path: &str| {
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "{{namespace}}"},
            "spec": {
                "interval": "3m", "path": path, "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": source},
            },
        })
    };
    let mut self_link = kustomization("self-link", "self-link", "./edo/cluster");
    self_link["spec"]["healthChecks"] = "{{sealed.healthChecks}}".into();
    let mut secrets = kustomization("secrets", "self-link", "./edo/secrets");
    secrets["spec"]["dependsOn"] = json!([{"name": "self-link"}]);
    Templates {
        flux: json!({
            "edge-cluster": "{{helm}}",
            "helm-charts.yaml": source("helm-charts", "{{url.helm}}"),
            "flux-system": kustomization("flux-system", "helm-charts", "./flux-system"),
            "self-link": [source("self-link", "{{url.self}}"), self_link],
            "secrets": secrets,
        }),
        chart: json!({
            "chart": "edge-cluster",
            "values": {"cluster": {"name": "{{name}}", "uuid": "{{uuid}}"}, "krb5": {"realm": "EXAMPLE.ORG"}},
        }),
        helm_release: json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "{{name}}", "labels": {"factoryplus.app.amrc.co.uk/uuid": "{{uuid}}"}},
            "spec": {
                "chart": {"spec": {"chart": "{{chart}}", "sourceRef": {"kind": "GitRepository", "name": "{{source}}"}}},
                "values": "{{values}}",
            },
        }),
    }
}
