//! The places of a cluster: directories that `latchkey init` makes, and nothing else does. One that is missing was lost, with denials or
//! records that were in it; made anew in passing, it would say that nobody is shut out.

use crate::atomic;
use crate::error::StoreError;
use crate::store::ClusterStore;
use latchkey_durable_file::Directory;
use latchkey_reason::reason_codes;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

reason_codes! {
    /// Why a place of a cluster cannot be used.
    pub enum PlaceCode {
        /// A place that `latchkey init` makes is gone, with what was in it.
        Missing = "cluster-place-missing":
            "put it back from a copy, with what was in it; to begin it anew, see what `latchkey upgrade store` shows";
        /// A denial is in force, and the cluster's document does not count it.
        NotCounted = "denial-not-counted":
            "the denial is in force: mend what is named, and deny the machine again, so that it cannot be lost unseen";
        /// A denial is in force, and stands in the cluster's document alone.
        NotListed = "denial-not-listed":
            "the denial is in force: mend what is named, and deny the machine again, so that it is listed with its reason";
        /// The join service's rights in its API server are not those of this release's chart.
        ChartNotUpgraded = "api-chart-not-upgraded":
            "bring the chart `latchkey` to this release's, with `latchkey upgrade execute --helm`, or with `latchkey charts install` where it is not installed";
    }
}

impl ClusterStore {
    /// Its places, in the order in which they are made.
    pub(crate) fn places(&self) -> [PathBuf; 2] {
        [self.nodes_path(), self.denied_path()]
    }

    /// Those that are not there.
    ///
    /// # Errors
    /// [`StoreError::Io`], where that cannot be seen.
    pub fn missing_places(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut missing = Vec::new();
        for path in self.places() {
            if !is_there(&path)? {
                missing.push(path);
            }
        }
        Ok(missing)
    }

    /// Makes those that are not there: for `latchkey init`, and for an operator who was shown that they are missing.
    ///
    /// # Errors
    /// [`StoreError::Io`]
    pub fn make_places(&self) -> Result<(), StoreError> {
        self.places().iter().try_for_each(|path| atomic::make(path))
    }
}

/// Refuses a place of a cluster's directory that is not there. Nothing is written for that.
pub(crate) fn demand(path: &Path, of: Option<&Path>) -> Result<(), StoreError> {
    if is_there(path)? { Ok(()) } else { Err(missing(path, of)) }
}

/// A link to a directory is none.
fn is_there(path: &Path) -> Result<bool, StoreError> {
    let opened = Directory::of(path).and_then(|(parent, name)| parent.inner(name));
    match opened {
        Ok(_) => Ok(true),
        Err(error) if is_no_directory(&error) => Ok(false),
        Err(error) => Err(StoreError::io("open", path)(error)),
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn missing(path: &Path, of: Option<&Path>) -> StoreError {
    StoreError::Place { path: path.to_owned(), of: of.map(Path::to_owned) }
}

/// What an error of listing a place says: one that is gone is refused by its code.
pub(crate) fn unlisted(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| {
        if is_no_directory(&error) { missing(path, path.parent()) } else { StoreError::io("list", path)(error) }
    }
}
