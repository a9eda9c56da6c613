use std::collections::BTreeMap;
use std::sync::Arc;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::k8s_resource;
use latchkey_factory_plus_client::notify::Children;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CLUSTER: Uuid = Uuid::constant("c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const OTHER: Uuid = Uuid::constant("c2c2c2c2-c1c1-41c1-81c1-c1c1c1c1c1c1");
const ONE: Uuid = Uuid::constant("d1d1d1d1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const TWO: Uuid = Uuid::constant("d2d2d2d2-c1c1-41c1-81c1-c1c1c1c1c1c1");
const AGENT: Uuid = Uuid::constant("a1a1a1a1-c1c1-41c1-81c1-c1c1c1c1c1c1");
const CUSTOM: Uuid = Uuid::constant("a2a2a2a2-c1c1-41c1-81c1-c1c1c1c1c1c1");
const SOURCE: &str = "5e5e5e5e-c1c1-41c1-81c1-c1c1c1c1c1c1";

fn site() -> Site {
    Site {
        cluster: CLUSTER,
        name: "Bolt".parse().unwrap(),
        namespace: "fplus-edge".into(),
        realm: "R.EXAMPLE".into(),
        directory: "https://directory.example".into(),
    }
}

fn children<const N: usize>(all: [(Uuid, Value); N]) -> Children {
    all.into_iter().map(|(uuid, value)| (uuid, Arc::new(value))).collect()
}

fn charts() -> Children {
    children([
        (
            AGENT,
            json!({"chart": "edge-agent", "values": {"uuid": "{{uuid}}", "name": "{{name}}", "hostname": "{{hostname}}"}}),
        ),
        (CUSTOM, json!({"chart": "charts/x", "prefix": "x", "source": SOURCE, "values": {"a": {"b": 1}}})),
    ])
}

fn kinds() -> Children {
    children([
        (
            k8s_resource::HELM_RELEASE,
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "metadata": {"name": "{{name}}", "labels": {"factoryplus.app.amrc.co.uk/uuid": "{{uuid}}"}},
                "spec": {
                    "chart": {"spec": {"chart": "{{chart}}", "sourceRef": {"kind": "GitRepository", "name": "{{source}}"}}},
                    "interval": "2m0s", "values": "{{values}}",
                },
            }),
        ),
        // As the original has it.
        (
            k8s_resource::GIT_REPOSITORY,
            json!({
                "resources": [{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository"}],
                "template": {
                    "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                    "metadata": {"name": "{{name}}", "labels": {"factoryplus.app.amrc.co.uk/uuid": "{{uuid}}"}},
                    "spec": {"interval": "3m", "ref": {"branch": "main"}, "secretRef": {"name": "flux-secrets"}, "url": "{{url}}"},
                },
            }),
        ),
    ])
}

fn entry(chart: Uuid) -> Value {
    json!({"createdAt": "2026-01-01", "name": "Line 1", "cluster": CLUSTER, "chart": chart})
}

fn planned(entries: &Children) -> Plan {
    let (charts, kinds) = (charts(), kinds());
    plan(&site(), entries, Templates { charts: &charts, kinds: &kinds, git: Some("https://git.example/") })
}

fn named(kind: Kind, name: impl Into<String>) -> Name {
    Name { kind, name: name.into() }
}

fn have(uid: &str, generation: i64) -> Have {
    Have { uid: uid.into(), generation, is_going: false, deployment: None }
}

#[test]
fn a_deployment_is_a_release_with_the_originals_names_labels_and_values() {
    let mut one = entry(AGENT);
    one["hostname"] = json!("m1");
    one["values"] = json!({"name": null, "realm": "OTHER", "deep": {"a": 1}});
    let plan = planned(&children([(ONE, one), (TWO, json!({"name": "x", "cluster": OTHER, "chart": AGENT}))]));
    let name = format!("edge-agent-{ONE}");
    let wanted = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {
            "name": name, "namespace": "fplus-edge",
            "labels": {"factoryplus.app.amrc.co.uk/uuid": ONE, "app.kubernetes.io/managed-by": "edge-sync.factoryplus.app.amrc.co.uk"},
        },
        "spec": {
            "chart": {"spec": {"chart": "edge-agent", "sourceRef": {"kind": "GitRepository", "name": "helm-charts"}}},
            "interval": "2m0s",
            "values": {
                "cluster": "Bolt", "realm": "OTHER", "directory_url": "https://directory.example", "uuid": ONE, "name": null,
                "hostname": "m1", "deep": {"a": 1},
            },
        },
    });
    assert_eq!(plan, Plan { wanted: [(named(Kind::HelmRelease, name), wanted)].into(), ..Plan::default() });
}

#[test]
fn a_chart_of_another_source_brings_its_repository_and_a_deployment_without_host_has_none() {
    let plan = planned(&children([
        (ONE, entry(CUSTOM)),
        (TWO, json!({"name": "x", "cluster": CLUSTER, "charts": [AGENT, CUSTOM]})),
    ]));
    assert_eq!(plan.sentences().len(), 0);
    let names: Vec<String> = plan.wanted.keys().map(ToString::to_string).collect();
    let source = format!("gitrepositories/helm-{SOURCE}");
    assert_eq!(
        names,
        [
            source,
            format!("helmreleases/edge-agent-{TWO}"),
            format!("helmreleases/x-{ONE}"),
            format!("helmreleases/x-{TWO}")
        ]
    );
    let repository = &plan.wanted[&named(Kind::GitRepository, format!("helm-{SOURCE}"))];
    assert_eq!(repository["spec"]["url"], format!("https://git.example/uuid/{SOURCE}"));
    let agent = &plan.wanted[&named(Kind::HelmRelease, format!("edge-agent-{TWO}"))];
    assert_eq!(agent["spec"]["values"].get("hostname"), None);
}

#[test]
fn what_cannot_be_made_is_said_and_what_stands_of_it_stays() {
    let (charts, mut kinds) = (charts(), kinds());
    let plan_of = |entry: Value, kinds: &Children, git: Option<&str>| {
        plan(&site(), &children([(ONE, entry)]), Templates { charts: &charts, kinds, git })
    };
    let cases = [
        (json!({"name": 1, "cluster": CLUSTER}), "its entry cannot be read"),
        (json!({"name": "x", "cluster": CLUSTER}), "names no `chart`"),
        (entry(OTHER), "there is no Helm chart template of"),
    ];
    for (entry, why) in cases {
        let plan = plan_of(entry, &kinds, Some("https://git.example"));
        assert!(plan.problems[&ONE].contains(why), "{plan:?}");
        let mine = named(Kind::HelmRelease, format!("edge-agent-{ONE}"));
        let labelled = Have { deployment: Some(ONE), ..have("u", 1) };
        assert!(!plan.is_surplus(&mine, &have("u", 1)) && !plan.is_surplus(&named(Kind::HelmRelease, "z"), &labelled));
        assert!(plan.is_surplus(&named(Kind::HelmRelease, "z"), &have("u", 1)));
        assert!(!plan.is_surplus(&named(Kind::GitRepository, "helm-z"), &have("u", 1)));
    }
    assert!(plan_of(entry(CUSTOM), &kinds, None).problems[&ONE].contains("git server"));
    for (template, why) in [
        (json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}), "makes a \"Secret\" of \"v1\""),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "HelmRelease", "metadata": {"name": "x"}}),
            "not deployed",
        ),
        (
            json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "../x"}}),
            "does not allow",
        ),
        (
            json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "spec": {"x": "{{values}}!"}}),
            "the HelmRelease template",
        ),
    ] {
        kinds.insert(k8s_resource::HELM_RELEASE, Arc::new(template));
        let plan = plan_of(entry(AGENT), &kinds, None);
        assert!(plan.problems[&ONE].contains(why) && plan.wanted.is_empty(), "{plan:?}");
    }
}

#[test]
fn a_template_that_names_another_namespace_deploys_to_ours() {
    let mut kinds = kinds();
    let mut template = (*kinds[&k8s_resource::HELM_RELEASE]).clone();
    template["metadata"] = json!({"namespace": "kube-system", "labels": "none"});
    kinds.insert(k8s_resource::HELM_RELEASE, Arc::new(template));
    let charts = charts();
    let templates = Templates { charts: &charts, kinds: &kinds, git: None };
    let plan = plan(&site(), &children([(ONE, entry(AGENT))]), templates);
    let manifest = plan.wanted.values().next().unwrap();
    assert_eq!(manifest["metadata"]["namespace"], "fplus-edge");
    assert_eq!(manifest["metadata"]["labels"], json!({MANAGED_BY: MANAGER}));
}

fn steps(applies: &mut Applies, plan: &Plan, have: &BTreeMap<Name, Have>, now: u64) -> (Vec<String>, Option<u64>) {
    let (steps, later) = applies.steps(plan, have, now);
    let say = |step: &Step| match step {
        Step::Apply(name, _) => format!("apply {name}"),
        Step::Delete(name, uid) => format!("delete {name} {uid}"),
    };
    (steps.iter().map(say).collect(), later)
}

#[test]
fn a_manifest_is_applied_once_and_again_when_it_its_object_or_its_absence_asks_for_it() {
    let name = named(Kind::HelmRelease, "a");
    let plan = |value: u32| Plan { wanted: [(name.clone(), json!({"v": value}))].into(), ..Plan::default() };
    let (mut applies, nothing) = (Applies::default(), BTreeMap::new());
    let apply = (vec!["apply helmreleases/a".to_owned()], None);
    let of = |uid: &str, generation| BTreeMap::from([(name.clone(), have(uid, generation))]);
    assert_eq!(steps(&mut applies, &plan(1), &nothing, 0), apply);
    applies.applied(&name, &json!({"v": 1}), &have("u", 1), 10);
    // The watch has not told yet.
    assert_eq!(steps(&mut applies, &plan(1), &nothing, 11), (vec![], Some(5010)));
    assert_eq!(steps(&mut applies, &plan(1), &of("u", 1), 12), (vec![], None));
    assert_eq!(steps(&mut applies, &plan(2), &of("u", 1), 13), apply);
    applies.applied(&name, &json!({"v": 2}), &have("u", 2), 20);
    assert_eq!(steps(&mut applies, &plan(2), &of("u", 1), 21), (vec![], None));
    // Somebody changed it, or made another one.
    for have in [of("u", 3), of("v", 1)] {
        assert_eq!(steps(&mut applies, &plan(2), &have, 21), (vec![], Some(5020)));
        assert_eq!(steps(&mut applies, &plan(2), &have, 5020), apply);
    }
    let mut going = of("u", 3);
    going.get_mut(&name).unwrap().is_going = true;
    assert_eq!(steps(&mut applies, &plan(2), &going, 9000), (vec![], None));
}

#[test]
fn what_is_wanted_no_more_is_deleted_and_failures_are_tried_again_ever_more_rarely() {
    let name = named(Kind::HelmRelease, "a");
    let (mut applies, plan) = (Applies::default(), Plan::default());
    let there = BTreeMap::from([(name.clone(), have("u", 1))]);
    let delete = vec!["delete helmreleases/a u".to_owned()];
    let mut now = 0;
    for pause in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(steps(&mut applies, &plan, &there, now), (delete.clone(), None));
        applies.failed(&name, "forbidden".into(), now);
        assert_eq!(applies.sentences().collect::<Vec<_>>(), ["forbidden"]);
        assert_eq!(steps(&mut applies, &plan, &there, now + 1), (vec![], Some(now + pause)));
        now += pause;
    }
    applies.deleted(&name, now);
    assert_eq!(steps(&mut applies, &plan, &there, now).0, Vec::<String>::new());
    assert_eq!(applies.sentences().count(), 0);
    assert_eq!(steps(&mut applies, &plan, &BTreeMap::new(), now), (vec![], None));
    assert_eq!(steps(&mut applies, &plan, &there, now), (delete, None));
}

#[test]
fn nothing_is_deleted_where_there_is_more_than_is_looked_at() {
    let many: Children = (0..=MOST).map(|_| (Uuid::random(), Arc::new(entry(AGENT)))).collect();
    let plan = planned(&many);
    assert_eq!((plan.wanted.len(), plan.is_partial, plan.sentences().len()), (MOST, true, 1));
    assert!(!plan.is_surplus(&named(Kind::HelmRelease, "z"), &have("u", 1)));
}

proptest! {
    /// Whatever people write into entries and templates, what comes out is of the two kinds, in our namespace, with our label.
    #[test]
    fn hostile_entries_make_nothing_but_releases_and_repositories_of_ours(
        name in ".{0,40}", path in ".{0,40}|charts/[a-z]{1,8}", prefix in ".{0,40}", source in ".{0,8}|5e5e5e5e-c1c1-41c1-81c1-c1c1c1c1c1c1",
        hostname in "\\{\\{values\\}\\}|.{0,20}", key in "namespace|labels|name|.{0,8}",
    ) {
        let charts = children([(AGENT, json!({"chart": path, "prefix": prefix, "source": source, "values": {key.clone(): "{{name}}"}}))]);
        let mut kinds = kinds();
        let mut template = (*kinds[&k8s_resource::HELM_RELEASE]).clone();
        template["metadata"][&key] = json!("{{name}}");
        kinds.insert(k8s_resource::HELM_RELEASE, Arc::new(template));
        let entries = children([(ONE, json!({"name": name, "cluster": CLUSTER, "chart": AGENT, "hostname": hostname}))]);
        let made = plan(&site(), &entries, Templates { charts: &charts, kinds: &kinds, git: Some("https://git.example") });
        prop_assert!(made.wanted.is_empty() != made.problems.is_empty());
        for (name, manifest) in made.wanted {
            prop_assert_eq!(manifest["metadata"]["namespace"].as_str(), Some("fplus-edge"));
            prop_assert_eq!(manifest["metadata"]["name"].as_str(), Some(name.name.as_str()));
            prop_assert_eq!(manifest["metadata"]["labels"][MANAGED_BY].as_str(), Some(MANAGER));
            prop_assert_eq!(manifest["kind"].as_str(), Some(name.kind.as_str()));
        }
    }
}
