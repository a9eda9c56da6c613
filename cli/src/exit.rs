//! How a run ends, as a number for scripts.

use std::process::ExitCode;

/// How a run ends. The numbers are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed, and none of the others.
    Failed = 1,
    /// Wrong arguments, or a file they name cannot be used.
    Usage = 2,
    /// Attestation refused the node: it did not prove what policy and reference values demand.
    Attestation = 3,
    /// The node refused: wrong secret, wrong state, or its own step failed.
    Node = 4,
    /// The node was not reached, or not done, in time.
    Unreachable = 5,
    /// A directory that the arguments name is not there, or holds no cluster.
    Missing = 6,
    /// Done, and a record of the cluster cannot be read: what it names is in doubt.
    Damaged = 7,
    /// Whoever read standard output went away before all was printed. The number is the one by which a shell tells of a
    /// program that SIGPIPE ended: 128 + 13.
    NobodyReads = 141,
}

impl Exit {
    /// Of a command that shows what could be read.
    pub(crate) fn of_damage(damaged: bool) -> Self {
        if damaged { Self::Damaged } else { Self::Done }
    }

    /// Every code with its meaning, for `--help`.
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (Self::Usage, "wrong arguments, or a file they name cannot be used"),
        (Self::Attestation, "refused by attestation: the node did not prove what policy and reference values demand"),
        (Self::Node, "refused by the node: wrong secret, wrong state, or its own step failed"),
        (Self::Unreachable, "the node was not reached, or not done, in time"),
        (Self::Missing, "a directory that the arguments name is not there, or holds no cluster"),
        (Self::Damaged, "done, and a record of the cluster, or a denial, cannot be read: it is named"),
        (Self::NobodyReads, "done, but standard output was closed before all was printed"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
