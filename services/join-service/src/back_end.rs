//! Where a cluster is kept.

use crate::config::{ClusterPlace, KubernetesConfig};
use latchkey_cluster_store::{ClusterStore, Documents, FolderRecords, RecordStore, StoreError};
use latchkey_kubernetes_store::KubernetesStore;
use std::sync::Arc;

/// Where a cluster's documents and records are. The decisions and their order are the same, whichever it is.
#[derive(Clone, Debug)]
pub enum BackEnd {
    /// A directory.
    Folder(ClusterStore),
    /// The cluster's API server.
    Kubernetes(Arc<KubernetesStore>),
}

impl BackEnd {
    /// Opens the directory, or connects and waits until everything there is was listed once.
    pub(crate) fn open(place: &ClusterPlace) -> Result<Self, StoreError> {
        match place {
            ClusterPlace::Directory(path) => ClusterStore::open(path).map(Self::Folder),
            ClusterPlace::Kubernetes(KubernetesConfig { kubeconfig, .. }) => {
                Ok(Self::Kubernetes(Arc::new(KubernetesStore::open(kubeconfig)?)))
            }
        }
    }

    /// What the cluster decides by beside its records.
    pub(crate) fn documents(&self) -> &dyn Documents {
        match self {
            Self::Folder(directory) => directory,
            Self::Kubernetes(store) => &**store,
        }
    }

    /// The API server, where the cluster is kept in one: what makes tokens and takes requests for certificates.
    pub(crate) fn api_server(&self) -> Option<&Arc<KubernetesStore>> {
        match self {
            Self::Folder(_) => None,
            Self::Kubernetes(store) => Some(store),
        }
    }

    /// Takes the records into use. Waits for other programs that write.
    pub(crate) fn records(&self) -> Result<Arc<dyn RecordStore>, StoreError> {
        match self {
            Self::Folder(directory) => Ok(Arc::new(FolderRecords::open(directory.clone())?)),
            Self::Kubernetes(store) => Ok(Arc::clone(store) as _),
        }
    }
}
