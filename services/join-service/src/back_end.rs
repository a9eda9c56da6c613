//! Where a cluster is kept.

use latchkey_cluster_store::{ClusterStore, Documents, FolderRecords, RecordStore, StoreError};
use std::sync::Arc;

/// Where a cluster's documents and records are. The decisions and their order are the same, whichever it is.
#[derive(Clone, Debug)]
pub enum BackEnd {
    /// A directory.
    Folder(ClusterStore),
}

impl BackEnd {
    /// What the cluster decides by beside its records.
    pub(crate) fn documents(&self) -> Arc<dyn Documents> {
        match self {
            Self::Folder(directory) => Arc::new(directory.clone()),
        }
    }

    /// Takes the records into use. Waits for other programs that write.
    pub(crate) fn records(&self) -> Result<Arc<dyn RecordStore>, StoreError> {
        match self {
            Self::Folder(directory) => Ok(Arc::new(FolderRecords::open(directory.clone())?)),
        }
    }
}
