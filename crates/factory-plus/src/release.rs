//! A `HelmRelease` for Flux, of a "Helm chart template" and the template of `HelmRelease`: the cluster manager makes that of a
//! cluster's own chart, Edge Sync those of deployments.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Uuid;
use crate::kubernetes_names::kubernetes_name;
use crate::template::{EntryError, substitute_entry};

/// The source of charts, where a chart's template names none.
const DEFAULT_SOURCE: &str = "charts";

/// What the entries are called in errors.
const CHART_TEMPLATE: &str = "Helm chart template";
const RELEASE_TEMPLATE: &str = "HelmRelease template";

/// What a "Helm chart template" gives.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// The path of the chart in its repository.
    #[serde(rename = "chart")]
    pub path: String,
    /// The repository of the chart, where it is another than the edge's own repository of charts.
    #[serde(default)]
    pub source: Option<String>,
    /// What names of releases begin with, where it is not the path.
    #[serde(default)]
    pub prefix: Option<String>,
    /// Helm values.
    #[serde(default)]
    pub values: Map<String, Value>,
}

/// A release of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Release<'a> {
    /// What is deployed: a cluster, or a deployment.
    pub uuid: Uuid,
    /// The namespace that the chart is deployed to.
    pub namespace: &'a str,
    /// Helm values, as a merge patch on those of the chart itself.
    pub values: Map<String, Value>,
}

impl Chart {
    /// The name of the source of charts, as an object of Kubernetes.
    pub fn source_name(&self) -> String {
        kubernetes_name(&["helm", self.source.as_deref().unwrap_or(DEFAULT_SOURCE)])
    }

    fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.path)
    }

    /// The name of a release of this chart.
    pub fn release_name(&self, uuid: Uuid) -> String {
        kubernetes_name(&[self.prefix(), &uuid.to_string()])
    }
}

/// What a "Helm chart template" gives for `parameters`, an object.
pub fn chart(template: &Value, parameters: &Value) -> Result<Chart, EntryError> {
    let chart = substitute_entry(CHART_TEMPLATE, template, parameters)?;
    serde_json::from_value(chart)
        .map_err(|error| EntryError::shape(CHART_TEMPLATE, format!("is not what it must be: {error}")))
}

impl Release<'_> {
    /// The manifest of the release of `chart`, by the template of `HelmRelease`.
    pub fn manifest(&self, chart: &Chart, template: &Value) -> Result<Value, EntryError> {
        let name = chart.release_name(self.uuid);
        let parameters = json!({
            "uuid": self.uuid,
            "name": name,
            "namespace": self.namespace,
            "chart": chart.path,
            "source": chart.source_name(),
            "values": self.values,
            "prefix": chart.prefix(),
        });
        let mut release = substitute_entry(RELEASE_TEMPLATE, template, &parameters)?;
        let metadata = release
            .as_object_mut()
            .map(|release| release.entry("metadata").or_insert_with(|| json!({})))
            .and_then(Value::as_object_mut)
            .ok_or_else(|| EntryError::shape(RELEASE_TEMPLATE, "is no manifest: it has no object \"metadata\""))?;
        metadata.entry("name").or_insert_with(|| name.into());
        // Templates are also for the edge, which deploys into its own namespace and has no need to say so.
        metadata.entry("namespace").or_insert_with(|| self.namespace.into());
        Ok(release)
    }
}
