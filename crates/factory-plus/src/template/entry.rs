//! Templates that are entries of the configuration database, called by their names in errors.

use serde_json::Value;

use super::{TemplateError, substitute};

/// Why an entry that is a template gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The template gives nothing.
    #[error("the {0}: {1}")]
    Template(&'static str, TemplateError),
    /// It is something else than it must be.
    #[error("the {entry} {wrong}")]
    Shape {
        /// Which entry.
        entry: &'static str,
        /// What is wrong with it, after the entry's name.
        wrong: String,
    },
}

impl EntryError {
    /// The entry named `entry` is something else than it must be.
    pub fn shape(entry: &'static str, wrong: impl Into<String>) -> Self {
        Self::Shape { entry, wrong: wrong.into() }
    }
}

/// What the template of the entry named `entry` gives: like [`substitute`], but nothing at all is an error.
///
/// # Errors
/// [`EntryError`].
pub fn substitute_entry(entry: &'static str, template: &Value, parameters: &Value) -> Result<Value, EntryError> {
    let filled = substitute(template, parameters).map_err(|error| EntryError::Template(entry, error))?;
    filled.ok_or_else(|| EntryError::shape(entry, "is one placeholder without a value"))
}
