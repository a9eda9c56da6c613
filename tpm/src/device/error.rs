//! The error of everything in this module.

use super::{Reason, ResponseCode};
use crate::wire::WireError;
use std::{fmt, io};

/// Why a TPM command did not give what was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum TpmError {
    /// The device or socket failed.
    Io(io::Error),
    /// The TPM answered with an error.
    Refused {
        /// The command.
        command: &'static str,
        /// The TPM's code.
        code: ResponseCode,
    },
    /// The answer is not of the form the specification gives it.
    Malformed {
        /// The command.
        command: &'static str,
        /// What is wrong.
        source: WireError,
    },
    /// The answer's HMAC is missing or wrong: somebody between here and the TPM changed command or answer.
    Tampered {
        /// The command.
        command: &'static str,
    },
    /// The answer is well formed but not one to this question.
    Unexpected {
        /// The command.
        command: &'static str,
        /// What does not fit.
        what: &'static str,
    },
    /// PCRs kept changing while they were quoted or extended.
    PcrRaced,
    /// The key cannot take a session salt: not an ECC key, or its point is not on the curve.
    SaltKey,
    /// An argument is out of bounds.
    Argument(WireError),
    /// The system's random source failed.
    Random,
}

impl TpmError {
    /// A stable name of the kind of error, for logs and reports.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "tpm-unreachable",
            Self::Refused { code, .. } => match code.reason() {
                Reason::Lockout => "tpm-lockout",
                Reason::AuthFail => "tpm-authorisation",
                Reason::PolicyFail => "tpm-policy",
                Reason::Integrity => "tpm-credential-not-ours",
                Reason::Handle => "tpm-handle",
                Reason::Memory => "tpm-full",
                Reason::Hierarchy => "tpm-hierarchy-disabled",
                Reason::NotStarted | Reason::Failure => "tpm-not-working",
                Reason::Algorithm | Reason::CommandCode => "tpm-not-capable",
                Reason::Repeat | Reason::NvUnavailable => "tpm-busy",
                Reason::Value | Reason::NvUninitialized | Reason::NvDenied | Reason::Other => "tpm-refused",
            },
            Self::Malformed { .. } | Self::Unexpected { .. } => "tpm-answer",
            Self::Tampered { .. } => "tpm-tampered",
            Self::PcrRaced => "tpm-pcr-raced",
            Self::SaltKey => "tpm-salt-key",
            Self::Argument(_) => "tpm-argument",
            Self::Random => "no-randomness",
        }
    }
}

impl fmt::Display for TpmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "TPM device: {error}"),
            Self::Refused { command, code } => write!(f, "{command}: {code}"),
            Self::Malformed { command, source } => write!(f, "{command}: malformed answer: {source}"),
            Self::Tampered { command } => {
                write!(f, "{command}: answer is not authentic; something between CPU and TPM changed it")
            }
            Self::Unexpected { command, what } => write!(f, "{command}: TPM answered with {what}"),
            Self::PcrRaced => f.write_str("PCRs changed while they were read; something else extends them"),
            Self::SaltKey => f.write_str("session salt key is not a valid ECC key"),
            Self::Argument(error) => write!(f, "argument out of bounds: {error}"),
            Self::Random => f.write_str("no random numbers from the system"),
        }
    }
}

impl std::error::Error for TpmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Malformed { source, .. } | Self::Argument(source) => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for TpmError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
