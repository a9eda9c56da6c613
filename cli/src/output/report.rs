//! What is printed for programs: the one home of its version.

use latchkey_attestation::Refusal;
use serde::Serialize;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;

use super::Style;

/// What a command found or did. It is computed first and printed afterwards: its fields are the JSON document, and nothing is
/// decided by reading that again.
pub(crate) trait Report: Serialize {
    /// For people.
    fn text(&self, style: Style) -> String;

    /// How the run ends, if printing succeeds.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// Whether evidence is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// A node that answers.
    Admitted,
    /// Kept evidence: nobody answered.
    Consistent,
    /// Neither.
    Refused,
}

/// A document or line with the version of its form.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// The version of the form of all that is printed for programs. It grows when something that was there is gone or means
/// something else; what is new is no other version.
const SCHEMA: u32 = 1;

/// The document that is a command's whole output for a program, its names in alphabetical order.
pub(super) fn document(content: &impl Serialize) -> Result<String, CommandError> {
    written(content, |value| format!("{value:#}\n"))
}

/// The same on one line: an error, which may follow a result, or one of several results.
pub(super) fn document_line(content: &impl Serialize) -> Result<String, CommandError> {
    written(content, |value| format!("{value}\n"))
}

fn written(content: &impl Serialize, text: impl Fn(&dyn std::fmt::Display) -> String) -> Result<String, CommandError> {
    let value = serde_json::to_value(Versioned { schema: SCHEMA, content });
    value.map(|value| text(&value)).map_err(|error| {
        CommandError::local(CommandCode::OutputUnwritable, "the result has no JSON form").because(error.to_string())
    })
}

/// One line for a program that follows the progress.
pub(super) fn line(progress: &Progress<'_>) -> String {
    serde_json::to_value(Versioned { schema: SCHEMA, content: progress }).unwrap_or_default().to_string()
}

/// Something that happened on the way to the result.
#[derive(Serialize)]
pub(super) struct Progress<'a> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(flatten)]
    step: Option<NodeStep<'a>>,
}

/// What a node says that it does.
#[derive(Serialize)]
struct NodeStep<'a> {
    step: &'a str,
    detail: &'a str,
    elapsed_ms: u64,
}

impl<'a> Progress<'a> {
    /// What the command itself says.
    pub(super) fn said(event: &'a str, text: &'a str) -> Self {
        Self { event, text: Some(text), step: None }
    }

    /// What a node reports, with the time since its bootstrap began.
    pub(super) fn step(step: &'a str, detail: &'a str, elapsed_ms: u64) -> Self {
        Self { event: "step", text: None, step: Some(NodeStep { step, detail, elapsed_ms }) }
    }
}

/// A command that failed.
#[derive(Serialize)]
pub(super) struct ErrorReport<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    code: &'a str,
    message: &'a str,
    because: &'a [String],
    fix: &'a str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a Refusal>,
}

impl<'a> ErrorReport<'a> {
    pub(super) fn of(error: &'a CommandError) -> Self {
        let error = ErrorFields {
            code: error.code.as_str(),
            message: &error.what,
            because: &error.because,
            fix: error.remedy(),
            exit_code: error.exit as u8,
            refusal: error.refusal.as_deref(),
        };
        Self { error }
    }
}
