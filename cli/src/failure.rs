//! How a command fails: what, because of what, and how to mend it.

use std::borrow::Cow;
use std::process::ExitCode;

use latchkey_attestation::Refusal;
use latchkey_keys::KeyError;

use crate::output::printable;

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
    /// Whoever read standard output went away before all was printed. The number is the one by which a shell tells of a
    /// program that SIGPIPE ended: 128 + 13.
    NobodyReads = 141,
}

impl Exit {
    /// Every code with its meaning, for `--help`.
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (Self::Usage, "wrong arguments, or a file they name cannot be used"),
        (Self::Attestation, "refused by attestation: the node did not prove what policy and reference values demand"),
        (Self::Node, "refused by the node: wrong secret, wrong state, or its own step failed"),
        (Self::Unreachable, "the node was not reached, or not done, in time"),
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
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable kebab-case word.
    pub(crate) code: Cow<'static, str>,
    pub(crate) what: String,
    /// The causes, from the nearest to the first.
    pub(crate) because: Vec<String>,
    /// One sentence that names the fix.
    pub(crate) fix: Option<String>,
    /// What attestation said, if that is why.
    pub(crate) refusal: Option<Box<Refusal>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: impl Into<Cow<'static, str>>, what: impl AsRef<str>) -> Self {
        let what = printable(what.as_ref());
        Self { exit, code: code.into(), what, because: Vec::new(), fix: None, refusal: None }
    }

    /// Wrong arguments.
    pub(crate) fn usage(what: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, "usage", what)
    }

    /// Something on this machine did not work.
    pub(crate) fn local(code: &'static str, what: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, code, what)
    }

    /// Attestation, or the reading of what it needs, refused.
    pub(crate) fn refused(exit: Exit, what: impl AsRef<str>, refusal: &Refusal) -> Self {
        let mut failure = Self::new(exit, refusal.code().as_str(), format!("{}: {}", what.as_ref(), refusal.code()));
        match refusal.difference() {
            Some(difference) => {
                let causes = crate::verify::difference_in_words(difference);
                failure = causes.into_iter().fold(failure, Self::because);
            }
            None if refusal.detail().is_empty() => {}
            None => failure = failure.because(refusal.detail()),
        }
        Self { refusal: Some(Box::new(refusal.clone())), ..failure.fix(refusal.code().remedy()) }
    }

    #[must_use]
    pub(crate) fn because(mut self, cause: impl AsRef<str>) -> Self {
        self.because.push(printable(cause.as_ref()));
        self
    }

    #[must_use]
    pub(crate) fn fix(self, fix: impl AsRef<str>) -> Self {
        Self { fix: Some(printable(fix.as_ref())), ..self }
    }
}

/// Secret files, random numbers, keys: the messages of that crate name the fix themselves.
impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let exit = if matches!(error, KeyError::File(_)) { Exit::Usage } else { Exit::Failed };
        Self::new(exit, "secret-unusable", error.to_string())
    }
}
