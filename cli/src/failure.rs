//! How a command fails: what, because of what, and how to mend it.

use std::process::ExitCode;

use latchkey_attestation::{Difference, Refusal};
use latchkey_keys::KeyError;

use crate::codes::{CommandCode, ErrorCode};
use crate::printable::printable;

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
    /// Whoever read standard output went away before all was printed. The number is the one by which a shell tells of a
    /// program that SIGPIPE ended: 128 + 13.
    NobodyReads = 141,
}

impl Exit {
    /// Every code with its meaning, for `--help`.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (Self::Usage, "wrong arguments, or a file they name cannot be used"),
        (Self::Attestation, "refused by attestation: the node did not prove what policy and reference values demand"),
        (Self::Node, "refused by the node: wrong secret, wrong state, or its own step failed"),
        (Self::Unreachable, "the node was not reached, or not done, in time"),
        (Self::Missing, "a directory that the arguments name is not there, or holds no cluster"),
        (Self::NobodyReads, "done, but standard output was closed before all was printed"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed. Nothing in it is secret, and nothing in it can steer a terminal.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) code: ErrorCode,
    pub(crate) what: String,
    /// The causes, from the nearest to the first.
    pub(crate) because: Vec<String>,
    /// What to do, where more is known than the code tells.
    fix: Option<String>,
    /// What attestation said, if that is why.
    pub(crate) refusal: Option<Box<Refusal>>,
}

/// The name that some modules still use.
pub(crate) use CommandError as Failure;

impl CommandError {
    pub(crate) fn new(exit: Exit, code: impl Into<ErrorCode>, what: impl AsRef<str>) -> Self {
        let what = printable(what.as_ref());
        Self { exit, code: code.into(), what, because: Vec::new(), fix: None, refusal: None }
    }

    /// Wrong arguments.
    pub(crate) fn usage(what: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, CommandCode::Usage, what)
    }

    /// Something on this machine did not work.
    pub(crate) fn local(code: CommandCode, what: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, code, what)
    }

    /// Attestation, or the reading of what it needs, refused.
    pub(crate) fn refused(exit: Exit, what: impl AsRef<str>, refusal: &Refusal) -> Self {
        let code = ErrorCode::of_attestation(refusal.code());
        let mut error = Self::new(exit, code, format!("{}: {}", what.as_ref(), refusal.code()));
        match refusal.difference() {
            Some(difference) => error = difference_in_words(difference).into_iter().fold(error, Self::because),
            None if refusal.detail().is_empty() => {}
            None => error = error.because(refusal.detail()),
        }
        Self { refusal: Some(Box::new(refusal.clone())), ..error }
    }

    #[must_use]
    pub(crate) fn because(mut self, cause: impl AsRef<str>) -> Self {
        self.because.push(printable(cause.as_ref()));
        self
    }

    /// With a remedy that says more than the code's own.
    #[must_use]
    pub(crate) fn fix(self, fix: impl AsRef<str>) -> Self {
        Self { fix: Some(printable(fix.as_ref())), ..self }
    }

    /// One sentence that says what to do.
    pub(crate) fn remedy(&self) -> &str {
        self.fix.as_deref().unwrap_or_else(|| self.code.remedy())
    }
}

/// Secret files, random numbers, keys: the messages of that crate say more than the code.
impl From<KeyError> for CommandError {
    fn from(error: KeyError) -> Self {
        let exit = if matches!(error, KeyError::File(_)) { Exit::Usage } else { Exit::Failed };
        Self::new(exit, CommandCode::SecretUnusable, error.to_string())
    }
}

/// Measurements that differ, cause by cause.
fn difference_in_words(difference: &Difference) -> Vec<String> {
    let Difference { pcr, component, means, expected, got, image, differing } = difference;
    let means = means.map_or_else(String::new, |of| format!(": {of}"));
    let mut causes = vec![
        format!("what differs: {} (PCR {pcr}){means}", component.describe()),
        format!("expected {expected}"),
        format!("     got {got}"),
    ];
    if let Some(image) = image {
        let list: Vec<String> = differing.iter().map(ToString::to_string).collect();
        causes.push(format!("compared with {image}, the closest image; PCRs that differ: {}", list.join(", ")));
    }
    causes
}
