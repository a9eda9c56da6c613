//! Entries and templates as manifests.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_factory_plus::kubernetes_names::is_kubernetes_subdomain;
use latchkey_factory_plus::release::{self, Chart, Release};
use latchkey_factory_plus::template::{compose_maps, substitute};
use latchkey_factory_plus::uuids::k8s_resource;
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_factory_plus_client::notify::Children;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::Entry;
use super::object::{Have, Kind, MANAGED_BY, MANAGER, Name};

/// The most deployments of a cluster.
pub const MOST: usize = 1000;
/// The largest manifest, in bytes of JSON: etcd takes no larger object.
const LARGEST: usize = 1 << 20;

/// The cluster, as manifests are told of it.
#[derive(Clone, Debug)]
pub struct Site {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: ClusterName,
    /// The namespace that everything is deployed to.
    pub namespace: String,
    /// The Kerberos realm.
    pub realm: String,
    /// The centre's directory.
    pub directory: String,
}

/// What the configuration database has that manifests are made of.
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a> {
    /// Entries of the application "Helm chart template".
    pub charts: &'a Children,
    /// Entries of the application "K8s resource template".
    pub kinds: &'a Children,
    /// The git server's base URL, if it is known.
    pub git: Option<&'a str>,
}

/// What is wanted in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The manifests, by what they make.
    pub wanted: BTreeMap<Name, Value>,
    /// Deployments that cannot be made, and why. What stands of them in the cluster is left alone.
    pub problems: BTreeMap<Uuid, String>,
    /// Whether nothing at all may be deleted: there is more than is looked at.
    pub is_partial: bool,
}

/// What entries come to. Those of other clusters are left out.
pub fn plan(site: &Site, entries: &Children, templates: Templates<'_>) -> Plan {
    let mut plan = Plan::default();
    for (uuid, entry) in entries {
        let entry = match Entry::deserialize(&**entry) {
            Ok(entry) if entry.cluster != site.cluster => continue,
            Ok(entry) => entry,
            Err(error) => {
                plan.problems.insert(*uuid, format!("its entry cannot be read: {error}"));
                continue;
            }
        };
        if plan.wanted.len() >= MOST {
            plan.is_partial = true;
            break;
        }
        let made: Result<Vec<_>, String> =
            entry.charts().map(|chart| manifests(site, *uuid, &entry, chart, templates)).collect();
        match made.map(|made| made.into_iter().flatten().collect::<Vec<_>>()) {
            Ok(made) if made.is_empty() => drop(plan.problems.insert(*uuid, "its entry names no `chart`".to_owned())),
            Ok(made) => plan.wanted.extend(made),
            Err(why) => drop(plan.problems.insert(*uuid, why)),
        }
    }
    plan
}

impl Plan {
    /// Whether an object that is there is wanted no more. What may belong to a deployment that cannot be made stays.
    pub fn is_surplus(&self, name: &Name, have: &Have) -> bool {
        if self.is_partial || self.wanted.contains_key(name) {
            return false;
        }
        let belongs = |uuid: &Uuid| have.deployment == Some(*uuid) || name.name.ends_with(&uuid.to_string());
        match name.kind {
            Kind::HelmRelease => !self.problems.keys().any(belongs),
            // It may be the source of a chart of one that cannot be made.
            Kind::GitRepository => self.problems.is_empty(),
        }
    }

    /// What is wrong, for people.
    pub fn sentences(&self) -> BTreeSet<String> {
        let partial = self.is_partial.then(|| format!("there are more than {MOST} deployments; no more are looked at"));
        let problems = self.problems.iter().map(|(uuid, why)| format!("deployment {uuid}: {why}"));
        problems.chain(partial).collect()
    }
}

/// The release of one chart of a deployment, and the source of that chart where it has one of its own.
fn manifests(
    site: &Site,
    uuid: Uuid,
    entry: &Entry,
    chart: Uuid,
    templates: Templates<'_>,
) -> Result<Vec<(Name, Value)>, String> {
    let template = templates.charts.get(&chart).ok_or_else(|| format!("there is no Helm chart template of {chart}"))?;
    let mut parameters = json!({"uuid": uuid, "name": entry.name});
    if let Some(hostname) = &entry.hostname {
        parameters["hostname"] = hostname.clone().into();
    }
    let chart = release::chart(template, &parameters).map_err(|error| error.to_string())?;
    let release_template = kind_template(templates, k8s_resource::HELM_RELEASE, "HelmRelease")?;
    let values = compose_maps(compose_maps(base(site), chart.values.clone()), entry.values.clone());
    let release = Release { uuid, namespace: &site.namespace, values };
    let release = release.manifest(&chart, release_template).map_err(|error| error.to_string())?;
    let mut made = vec![owned(site, release, Kind::HelmRelease)?];
    if let Some(source) = &chart.source {
        made.push(owned(site, source_of(&chart, source, templates)?, Kind::GitRepository)?);
    }
    Ok(made)
}

/// Helm values that every chart is given.
fn base(site: &Site) -> Map<String, Value> {
    let base = [("cluster", site.name.as_str()), ("realm", &site.realm), ("directory_url", &site.directory)];
    base.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

fn source_of(chart: &Chart, source: &str, templates: Templates<'_>) -> Result<Value, String> {
    let repository: Uuid = source.parse().map_err(|_| format!("the chart's source {source:?} is no UUID"))?;
    let git = templates.git.ok_or("the directory has not named the git server yet")?;
    let parameters = json!({
        "uuid": repository,
        "name": chart.source_name(),
        "url": format!("{}/uuid/{repository}", git.trim_end_matches('/')),
    });
    let template = kind_template(templates, k8s_resource::GIT_REPOSITORY, "GitRepository")?;
    let filled = substitute(template, &parameters).map_err(|error| format!("the GitRepository template: {error}"))?;
    filled.ok_or_else(|| "the GitRepository template is one placeholder without a value".to_owned())
}

/// A template of a kind. The original's entries have it in a field `template`, beside what they replace.
fn kind_template<'a>(templates: Templates<'a>, uuid: Uuid, kind: &str) -> Result<&'a Value, String> {
    let entry = templates.kinds.get(&uuid).ok_or_else(|| format!("there is no K8s resource template for {kind}"))?;
    Ok(entry.get("template").filter(|inner| inner.is_object()).unwrap_or(entry))
}

/// The manifest as one of ours: of this kind, in our namespace, with our label.
fn owned(site: &Site, mut manifest: Value, kind: Kind) -> Result<(Name, Value), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, named) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
    if Kind::of(&version, &named) != Some(kind) {
        return Err(format!(
            "the template for {} makes a {named:?} of {version:?}, which is not deployed",
            kind.as_str()
        ));
    }
    let name = text(&manifest["metadata"]["name"]);
    if !is_kubernetes_subdomain(&name) {
        return Err(format!("its {} would be called {name:?}, which Kubernetes does not allow", kind.as_str()));
    }
    let labels = &mut manifest["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[MANAGED_BY] = MANAGER.into();
    manifest["metadata"]["namespace"] = site.namespace.clone().into();
    if manifest.to_string().len() > LARGEST {
        return Err(format!("its {} would be larger than {LARGEST} bytes", kind.as_str()));
    }
    Ok((Name { kind, name }, manifest))
}
