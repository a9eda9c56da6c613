//! `latchkey centre backup` and `latchkey centre restore`.
//!
//! The moment of a backup: the configuration database is copied first, then the authorisation service, the directory, the enrol
//! service, the KDC and the repositories, each as it is at one moment. Whatever is made for an edge is noted in the first one as made only
//! once the others have it, so all that the backup's configuration database calls made is in the backup. What was made while
//! the backup went on may be in the later ones alone: accounts that nobody uses. What was deleted meanwhile may be in the
//! first one alone, and has to be deleted again.
//!
//! 1. [`member`], [`manifest`]: what can be in a backup at all, and the list of what is.
//! 2. [`archive`]: the file: a tar of plain files in zstd.
//! 3. [`spool`], [`collect`], [`create`]: from a centre that runs to the file.
//! 4. [`restore`]: from the file to a directory; [`edge_keys`]: what an operator has to look at then.
//! 5. [`git`]: repositories from and to bundles; [`registrations`]: the enrol service's directory.

mod archive;
mod collect;
mod create;
mod edge_keys;
mod git;
mod manifest;
mod member;
mod registrations;
mod restore;
mod spool;

pub(crate) use create::backup;
pub(crate) use restore::restore;

use crate::codes::CommandCode;
use crate::error::CommandError;

/// A backup that is refused.
fn damaged(what: impl AsRef<str>) -> CommandError {
    CommandError::local(CommandCode::CentreBackupDamaged, format!("the backup is refused: {}", what.as_ref()))
}
