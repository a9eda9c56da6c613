//! What goes wrong with a program.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::{Program, StockCode, Version};
use crate::error::CommandError;
use crate::exit::Exit;

/// Lines of what a program said that an error shows.
const SHOWN_LINES: usize = 6;

/// Why a program did not do what was asked.
#[derive(Debug, Error)]
pub(crate) enum StockError {
    #[error("{program} is not in PATH")]
    Missing { program: Program },
    #[error("there is no kubeconfig {}", path.display())]
    NoKubeconfig { path: PathBuf },
    #[error("{} is no program that can be run", path.display())]
    NotExecutable { path: PathBuf },
    #[error("{call} cannot be run")]
    Start { call: String, source: io::Error },
    #[error("{program} {found} is too old: {needed}")]
    TooOld { program: Program, found: Version, needed: String },
    #[error("{program} {found} is too new: {needed}")]
    TooNew { program: Program, found: Version, needed: String },
    #[error("HELM_DRIVER is {driver:?}: helm by hand keeps its releases there, and this command keeps them in Secrets")]
    Driver { driver: String },
    #[error("{call} answers with what is no answer of it: {reason}")]
    Malformed { call: String, reason: String },
    #[error("{call} printed more than {limit} bytes")]
    TooLong { call: String, limit: usize },
    #[error("{call} was not done within {} s", allowed.as_secs())]
    Late { call: String, allowed: Duration, said: String },
    #[error("{call} was stopped: the command was told to end")]
    Interrupted { call: String },
    #[error("{call} failed")]
    Failed { call: String, code: StockCode, said: String },
}

impl StockError {
    pub(crate) fn code(&self) -> StockCode {
        match self {
            Self::Missing { program: Program::Kubectl } => StockCode::KubectlMissing,
            Self::Missing { program: Program::Helm } => StockCode::HelmMissing,
            Self::Missing { program: Program::Restart } | Self::NotExecutable { .. } | Self::Start { .. } => {
                StockCode::Unusable
            }
            Self::NoKubeconfig { .. } => StockCode::KubeconfigMissing,
            Self::TooOld { .. } => StockCode::TooOld,
            Self::TooNew { .. } => StockCode::TooNew,
            Self::Driver { .. } => StockCode::HelmDriver,
            Self::Malformed { .. } => StockCode::Malformed,
            Self::TooLong { .. } => StockCode::TooLong,
            Self::Late { .. } => StockCode::Late,
            Self::Interrupted { .. } => StockCode::Interrupted,
            Self::Failed { code, .. } => *code,
        }
    }

    /// The last words of the program; empty if it was not their fault.
    pub(crate) fn said(&self) -> &str {
        match self {
            Self::Late { said, .. } | Self::Failed { said, .. } => said,
            _ => "",
        }
    }
}

impl From<StockError> for CommandError {
    fn from(error: StockError) -> Self {
        let exit = match error.code() {
            StockCode::KubectlMissing
            | StockCode::HelmMissing
            | StockCode::KubeconfigMissing
            | StockCode::TooOld
            | StockCode::TooNew
            | StockCode::HelmDriver => Exit::Usage,
            StockCode::Unreachable | StockCode::Late => Exit::Unreachable,
            _ => Exit::Failed,
        };
        let mut failure = Self::new(exit, error.code(), error.to_string());
        if let StockError::Start { source, .. } = &error {
            failure = failure.because(source.to_string());
        }
        let lines: Vec<&str> = error.said().lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(SHOWN_LINES);
        lines.into_iter().skip(last).fold(failure, Self::because)
    }
}

/// What kubectl's and helm's words say of the API server. They have no other form for it: the reason stands in brackets.
pub(super) fn code_of(said: &str) -> StockCode {
    const REASONS: [(&str, StockCode); 23] = [
        ("(NotFound)", StockCode::ObjectMissing),
        ("(AlreadyExists)", StockCode::ObjectExists),
        ("(Conflict)", StockCode::Conflict),
        ("(Forbidden)", StockCode::Forbidden),
        (" is forbidden: ", StockCode::Forbidden),
        ("(Unauthorized)", StockCode::KnowsUsNot),
        ("the server has asked for the client to provide credentials", StockCode::KnowsUsNot),
        ("(Expired)", StockCode::Expired),
        ("(Gone)", StockCode::Expired),
        ("(Invalid)", StockCode::Invalid),
        ("(BadRequest)", StockCode::Invalid),
        (" is invalid: ", StockCode::Invalid),
        ("(TooManyRequests)", StockCode::ServerFailed),
        ("(InternalError)", StockCode::ServerFailed),
        ("(ServiceUnavailable)", StockCode::ServerFailed),
        ("(Timeout)", StockCode::ServerFailed),
        // What etcd says of itself comes without a reason.
        ("Error from server: etcdserver: ", StockCode::ServerFailed),
        ("x509: ", StockCode::Untrusted),
        ("Kubernetes cluster unreachable", StockCode::Unreachable),
        ("Unable to connect to the server", StockCode::Unreachable),
        ("The connection to the server", StockCode::Unreachable),
        ("connection refused", StockCode::Unreachable),
        ("unexpected EOF", StockCode::Unreachable),
    ];
    let found = REASONS.iter().find(|(words, _)| said.contains(words));
    found.map_or(StockCode::Failed, |(_, code)| *code)
}
