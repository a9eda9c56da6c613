//! Which deprecated APIs were asked for, by the API server's own metric.

use std::fmt;

use serde::Serialize;

const METRIC: &str = "apiserver_requested_deprecated_apis{";
/// APIs that are listed.
const MAX: usize = 1000;

/// An API that was asked for since the API server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DeprecatedApi {
    group: String,
    version: String,
    resource: String,
    /// The minor version that has it no more; empty if none is planned.
    removed_release: String,
}

impl DeprecatedApi {
    /// Whether version 1.`minor` has it no more.
    pub(super) fn is_gone_in(&self, minor: u16) -> bool {
        let removed = self.removed_release.strip_prefix("1.").and_then(|removed| removed.parse::<u16>().ok());
        removed.is_some_and(|removed| removed <= minor)
    }
}

impl fmt::Display for DeprecatedApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version, resource, removed_release } = self;
        write!(f, "{resource}.{version}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if removed_release.is_empty() { Ok(()) } else { write!(f, " (gone in {removed_release})") }
    }
}

/// From the API server's metrics, in the form that Prometheus reads.
pub(super) fn deprecated_apis(metrics: &str) -> Vec<DeprecatedApi> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(METRIC));
    lines
        .filter_map(|line| line.rsplit_once('}'))
        .filter(|(_, value)| value.trim() != "0")
        .take(MAX)
        .map(|(labels, _)| of(labels))
        .collect()
}

fn of(labels: &str) -> DeprecatedApi {
    let mut api = DeprecatedApi::default();
    for (name, value) in labels.split("\",").filter_map(|label| label.split_once("=\"")) {
        let value = value.trim_end_matches('"').to_owned();
        match name {
            "group" => api.group = value,
            "version" => api.version = value,
            "resource" => api.resource = value,
            "removed_release" => api.removed_release = value,
            _ => {}
        }
    }
    api
}
