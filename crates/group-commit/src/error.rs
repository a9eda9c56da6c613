//! What goes wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{LONGEST_KEY, LONGEST_VALUE, WAITING_WRITES};

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, has it open.
    #[error("{path} is in use by another process; end that one first, or name another file", path = .0.display())]
    InUse(PathBuf),
    /// The file system refused something.
    #[error("cannot {what} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is no such file, or a damaged one.
    #[error("{path} cannot be read as a database: {reason}; restore it from a backup", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What redb says.
        reason: String,
    },
    /// The log beside the file is part of it, and cannot be used.
    #[error(
        "{path} cannot be used: {reason}; it has writes that its database lacks: restore the database from a backup, and move the log \
         away", path = .path.display()
    )]
    DamagedLog {
        /// The log.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The log beside the file is of another one.
    #[error(
        "{log} has writes of another file than {path}; if that was restored or copied to its place, move the log away",
        log = .log.display(), path = .path.display()
    )]
    ForeignLog {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// The caller could not use an entry.
    #[error("{path}, table {table}: {reason}", path = .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The table of the entry.
        table: &'static str,
        /// What the caller says.
        reason: String,
    },
}

impl OpenError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Self {
        move |reason| Self::Damaged { path: path.into(), reason: reason.to_string() }
    }

    pub(crate) fn written(path: &Path) -> impl Fn(redb::Error) -> Self {
        move |error| match error {
            redb::Error::Io(source) => Self::io("write", path)(source),
            other => Self::damaged(path)(other),
        }
    }
}

/// Why something was not written. Nothing of it can be seen, now or after the next start.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The file was not opened with this table.
    #[error("there is no table {0}")]
    UnknownTable(&'static str),
    /// See [`LONGEST_KEY`].
    #[error("a key of {0} bytes; at most {LONGEST_KEY} are written")]
    KeyTooLong(usize),
    /// See [`LONGEST_VALUE`].
    #[error("a value of {0} bytes; at most {LONGEST_VALUE} are written")]
    ValueTooLong(usize),
    /// The changes of one call, or of all calls that share an fsync.
    #[error("changes of {0} bytes at once; at most 512 MiB are written")]
    GroupTooLong(u64),
    /// See [`WAITING_WRITES`].
    #[error("{WAITING_WRITES} writes wait for the disk already; try again later")]
    Busy,
    /// The disk is full, or fails. Later writes may succeed.
    #[error("the disk does not take it: {0}")]
    Storage(Arc<str>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why there is no copy. Nothing is left at its path.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file system refused something.
    #[error("cannot {what} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// One of the two files fails.
    #[error("cannot copy: {0}")]
    Storage(String),
    /// This process makes another copy at the same path.
    #[error("another copy is being made; ask again when it is done")]
    Busy,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl CopyError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
