//! What all control planes of a cluster share: kept as a file beside the service's other secrets, given to a control plane alone.

use crate::decision::ControlPlaneTurn;
use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api::v1::ControlPlaneFile;
use latchkey_cluster_store::{StoreError, control_plane};
use std::path::Path;

/// The keys of a cluster's authorities. There is one way out of here.
#[derive(Debug)]
pub(crate) struct ControlPlaneKeys(ControlPlaneFiles);

impl ControlPlaneKeys {
    /// Reads the file, which nobody but the service's user and root may read.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        control_plane::read(path).map(Self)
    }

    /// Whether the cluster that publishes these certificates (PEM) is the one that these keys are of.
    pub(crate) fn are_of(&self, published: &[u8]) -> bool {
        let compact =
            |text: &[u8]| text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>();
        let published = compact(published);
        self.0.iter().filter(|(name, _)| *name == "ca.crt").any(|(_, ours)| {
            let ours = compact(ours);
            !ours.is_empty() && published.windows(ours.len()).any(|part| part == ours)
        })
    }

    /// For the ticket of the control plane whose turn it is.
    pub(crate) fn for_ticket(&self, _: &ControlPlaneTurn) -> Vec<ControlPlaneFile> {
        self.0.to_messages()
    }
}
