//! What the operator is told of a cluster directory, or a part of a cluster, that cannot be used.

use latchkey_cluster_store::{ContentError, StoreError};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn unusable(error: StoreError) -> CommandError {
    if let StoreError::Malformed { path, fault: ContentError::Attestation(refusal) } = &error {
        return CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), refusal);
    }
    let code = match &error {
        StoreError::Io { .. } | StoreError::Elsewhere { .. } => CommandCode::DirectoryUnusable,
        StoreError::Malformed { .. } => CommandCode::FileMalformed,
        StoreError::Exists { .. } => CommandCode::ClusterExists,
    };
    let exit = if matches!(error, StoreError::Malformed { .. }) { Exit::Usage } else { Exit::Failed };
    CommandError::new(exit, code, error.to_string())
}
