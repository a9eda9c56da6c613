//! The way to the cluster's API server.

use std::path::PathBuf;

use latchkey_kubernetes_client::{ApiError, Connection};
use serde::Deserialize;

/// How the API server is reached by a program that is no pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesSection {
    /// A kubeconfig: one https server, its authority, and a certificate or a token.
    pub kubeconfig: PathBuf,
}

/// Connects by the section, or as a pod does where there is none. Nobody is asked yet.
///
/// # Errors
/// The kubeconfig, or what a pod is given, cannot be used.
pub fn connect(section: Option<&KubernetesSection>) -> Result<Connection, ApiError> {
    section.map_or_else(Connection::in_pod, |section| Connection::open(&section.kubeconfig))
}
