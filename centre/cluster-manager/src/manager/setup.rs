//! The site's set-up: what "Service setup" says to this service.

use latchkey_factory_plus::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Classes;

/// The entry of "Service setup" for the cluster manager. Other fields are other services', or the original's.
#[derive(Debug, Deserialize)]
struct Entry {
    group: Groups,
    repo: Repositories,
}

#[derive(Debug, Deserialize)]
struct Groups {
    cluster: Named,
    flux: Named,
    krbkeys: Named,
    sync: Named,
    monitor: Named,
}

#[derive(Debug, Deserialize)]
struct Repositories {
    helm: Named,
}

#[derive(Debug, Deserialize)]
struct Named {
    uuid: Uuid,
}

/// The charts that the page deploys, from the entry of "Service setup" for the page where people manage the site.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charts {
    /// Of edge clusters.
    #[serde(default)]
    pub cluster: Option<Uuid>,
    /// Of edge agents.
    #[serde(default)]
    pub agent: Option<Uuid>,
}

/// Classes, and the repository of charts.
pub(super) fn read(entry: &Value) -> Result<(Classes, Uuid), serde_json::Error> {
    let Entry { group, repo } = Entry::deserialize(entry)?;
    let classes = Classes {
        cluster: group.cluster.uuid,
        flux: group.flux.uuid,
        krbkeys: group.krbkeys.uuid,
        sync: group.sync.uuid,
        monitor: group.monitor.uuid,
    };
    Ok((classes, repo.helm.uuid))
}

/// The charts; none where the entry says none.
pub(super) fn read_charts(entry: &Value) -> Charts {
    Charts::deserialize(&entry["helm"]).unwrap_or_default()
}
