//! What the operator is told of a cluster directory, or a part of a cluster, that cannot be used.

use latchkey_cluster_store::{ContentError, PlaceCode, StoreError};

use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn unusable(error: StoreError) -> CommandError {
    if let StoreError::Malformed { path, fault: ContentError::Attestation(refusal) } = &error {
        return CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), refusal);
    }
    let code: ErrorCode = match &error {
        StoreError::Io { .. } | StoreError::Elsewhere { .. } => CommandCode::DirectoryUnusable.into(),
        StoreError::Malformed { .. } => CommandCode::FileMalformed.into(),
        StoreError::Exists { .. } => CommandCode::ClusterExists.into(),
        StoreError::NotCounted { .. } => PlaceCode::NotCounted.into(),
        StoreError::NotListed { .. } => PlaceCode::NotListed.into(),
        StoreError::Place { path, of } => {
            let what = format!("{} is gone, or is no directory", path.display());
            return match of {
                Some(of) => place_missing(what, &format!("--cluster {}", of.display())),
                None => CommandError::new(Exit::Missing, PlaceCode::Missing, what)
                    .fix("put it back from a copy, with what was in it, or make it, if nothing was in it"),
            };
        }
    };
    let exit = if matches!(error, StoreError::Malformed { .. }) { Exit::Usage } else { Exit::Failed };
    CommandError::new(exit, code, error.to_string())
}

/// A place that `latchkey init` makes is gone. `arguments` name the cluster.
pub(crate) fn place_missing(what: String, arguments: &str) -> CommandError {
    CommandError::new(Exit::Missing, PlaceCode::Missing, what).fix(format!(
        "put it back from a copy, with what was in it; to begin it anew, see what `latchkey upgrade store {arguments}` shows"
    ))
}
