//! An entry of the application "Edge deployment".

use latchkey_factory_plus::Uuid;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What somebody wants deployed to a cluster. Fields that are not known here are left alone: pages of other versions write it, too.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Entry {
    /// What the deployment is called.
    pub name: String,
    /// The cluster that it is for.
    pub cluster: Uuid,
    /// The host that it runs on; any, where there is none.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The entry of the application "Helm chart template".
    #[serde(default)]
    pub chart: Option<Uuid>,
    /// The same, as it was written before there was `chart`.
    #[serde(default)]
    charts: Vec<Uuid>,
    /// Helm values, merged over those of the chart's template.
    #[serde(default)]
    pub values: Map<String, Value>,
}

/// Charts of one old entry that are looked at.
const MOST_CHARTS: usize = 16;

impl Entry {
    /// The charts that are deployed.
    pub fn charts(&self) -> impl Iterator<Item = Uuid> {
        let old = if self.chart.is_some() { &[] } else { self.charts.as_slice() };
        self.chart.into_iter().chain(old.iter().copied().take(MOST_CHARTS))
    }
}
