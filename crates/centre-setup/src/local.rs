//! The UUIDs that a site makes for itself, once.

use latchkey_factory_plus::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// UUIDs of this site's own objects. They stand in the entry of "Service setup" about itself, and are kept for the site's life:
/// grants and deployed edges name them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct Local {
    /// The role of edges' Flux.
    pub edge_flux: Uuid,
    /// The role of edges' operators of keys.
    pub edge_krbkeys: Uuid,
    /// The role of Edge Sync.
    pub edge_sync: Uuid,
    /// The role of Edge Monitor.
    pub edge_monitor: Uuid,
    /// The role of edge agents.
    pub edge_agent: Uuid,
    /// The group of the repositories of clusters.
    pub cluster_repositories: Uuid,
    /// The group of repositories that every edge reads.
    pub shared_repositories: Uuid,
    /// The repository of charts.
    pub helm_charts: Uuid,
    /// The chart of edge clusters.
    pub cluster_chart: Uuid,
    /// The chart of edge agents.
    pub agent_chart: Uuid,
    /// The first administrator's account.
    pub administrator: Uuid,
}

/// What was kept cannot be read. New UUIDs would cut deployed edges off, so none are made.
#[derive(Debug, thiserror::Error)]
#[error("the site's UUIDs cannot be read ({0}); mend the entry of Service setup about itself, or restore a backup")]
pub struct LocalError(serde_json::Error);

impl Local {
    /// New ones, from the system's random numbers.
    pub fn new() -> Self {
        Self {
            edge_flux: Uuid::random(),
            edge_krbkeys: Uuid::random(),
            edge_sync: Uuid::random(),
            edge_monitor: Uuid::random(),
            edge_agent: Uuid::random(),
            cluster_repositories: Uuid::random(),
            shared_repositories: Uuid::random(),
            helm_charts: Uuid::random(),
            cluster_chart: Uuid::random(),
            agent_chart: Uuid::random(),
            administrator: Uuid::random(),
        }
    }

    /// Those of an earlier set-up, from the entry that it left; new ones where there is no entry.
    ///
    /// # Errors
    /// [`LocalError`].
    pub fn kept_or_new(entry: Option<&Value>) -> Result<Self, LocalError> {
        entry.map_or_else(|| Ok(Self::new()), |entry| Self::deserialize(entry).map_err(LocalError))
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_once_is_kept() {
        let first = Local::kept_or_new(None).unwrap();
        let entry = serde_json::to_value(&first).unwrap();
        assert_eq!(Local::kept_or_new(Some(&entry)).unwrap(), first);
        assert_ne!(Local::new(), first);
    }

    #[test]
    fn an_entry_that_cannot_be_read_makes_no_new_ones() {
        let mut entry = serde_json::to_value(Local::new()).unwrap();
        entry["EdgeFlux"] = "nonsense".into();
        assert!(Local::kept_or_new(Some(&entry)).is_err());
        assert!(Local::kept_or_new(Some(&Value::Null)).is_err());
    }
}
