//! How a command fails: what, because of what, and how to mend it.

use latchkey_attestation::{Difference, Refusal};
use latchkey_keys::KeyError;

use crate::codes::{CommandCode, ErrorCode};
use crate::exit::Exit;
use crate::printable::printable;

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
    pub(crate) fn local(code: impl Into<ErrorCode>, what: impl AsRef<str>) -> Self {
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

    /// Of what this happened, before what happened.
    #[must_use]
    pub(crate) fn about(self, of: &str) -> Self {
        Self { what: format!("{}: {}", printable(of), self.what), ..self }
    }

    /// With a remedy that says more than the code's own.
    #[must_use]
    pub(crate) fn fix(self, fix: impl AsRef<str>) -> Self {
        Self { fix: Some(printable(fix.as_ref())), ..self }
    }

    /// Where to read about the arguments that are wrong, if nothing says more.
    #[must_use]
    pub(crate) fn of_command(self, command: &str) -> Self {
        let nothing_said = self.fix.is_none() && self.code == ErrorCode::from(CommandCode::Usage);
        if nothing_said { self.fix(format!("see `latchkey {command} --help`")) } else { self }
    }

    /// One sentence that says what to do.
    pub(crate) fn remedy(&self) -> &str {
        self.fix.as_deref().unwrap_or_else(|| self.code.remedy())
    }
}

/// Secret files, random numbers, keys: the remedies of that crate say more than the command's.
impl From<KeyError> for CommandError {
    fn from(error: KeyError) -> Self {
        let (exit, code) = match &error {
            KeyError::File(_) => (Exit::Usage, CommandCode::SecretUnusable.into()),
            KeyError::OtherCluster(_) => (Exit::Usage, ErrorCode::from(error.code())),
            _ => (Exit::Failed, CommandCode::SecretUnusable.into()),
        };
        Self::new(exit, code, error.to_string()).fix(error.code().remedy())
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
