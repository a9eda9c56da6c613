//! What a machine proved last, wherever that is kept.

use latchkey_attestation::reference::format_rfc3339;
use latchkey_cluster_store::NodeStatus;
use serde::{Deserialize, Serialize};

/// What was last seen of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub(crate) struct Seen {
    pub(crate) image: String,
    pub(crate) version: String,
    pub(crate) agent_version: Option<String>,
    /// RFC 3339.
    pub(crate) last_attestation: Option<String>,
}

impl From<NodeStatus> for Seen {
    fn from(status: NodeStatus) -> Self {
        let NodeStatus { image, version, agent_version, last_attestation, epoch: _, last_report: _ } = status;
        Self { image, version, agent_version, last_attestation: Some(format_rfc3339(last_attestation)) }
    }
}
