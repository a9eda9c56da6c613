//! The entry of the application "Bootstrap script", filled.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::document::quoted;
use super::{ScriptError, TOKEN, Values};
use crate::manifests::documents;
use latchkey_factory_plus::template::{substitute, substitute_text};

/// Where the files are put.
const PLACE: &str = "{{files}}";
/// The most characters of a file's name.
const LONGEST_NAME: usize = 64;

/// The entry. A file is a text, a manifest, or several manifests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    script: String,
    files: BTreeMap<String, Value>,
}

/// What the script is made of.
pub(super) struct Filled {
    /// The driver script before the files are there.
    pub(super) before: String,
    /// And after.
    pub(super) after: String,
    /// Contents by name.
    pub(super) files: BTreeMap<String, String>,
}

pub(super) fn fill(
    entry: &Value,
    values: &Values<'_>,
    added: &BTreeMap<String, String>,
) -> Result<Filled, ScriptError> {
    let entry = Entry::deserialize(entry).map_err(|error| ScriptError::Shape(error.to_string()))?;
    let parameters = values.parameters()?;
    let texts = entry.files.iter().map(|(name, file)| (name.as_str(), file.to_string()));
    let texts = texts.chain([("driver script", entry.script.clone())]);
    let texts = texts.chain(added.iter().map(|(name, text)| (name.as_str(), text.clone())));
    for (name, text) in texts {
        if text.contains(TOKEN) {
            return Err(ScriptError::Mark(name.to_owned()));
        }
    }
    let (before, after) = halves(&entry.script).ok_or(ScriptError::Place)?;
    let half = |text: &str| script_text("driver script", text, &parameters);
    let mut filled = Filled { before: half(before)?, after: half(after)?, files: added.clone() };
    for (name, file) in &entry.files {
        let text = match file {
            Value::String(text) => text_file(name, text, &parameters)?,
            manifests => manifest_file(name, manifests, &parameters)?,
        };
        if filled.files.insert(name.clone(), text).is_some() {
            return Err(ScriptError::Twice(name.clone()));
        }
    }
    for (name, text) in &filled.files {
        if !is_file_name(name) {
            return Err(ScriptError::FileName(name.clone()));
        }
        if text.contains('\0') {
            return Err(ScriptError::Zero(name.clone()));
        }
    }
    if [&filled.before, &filled.after].iter().any(|half| half.contains('\0')) {
        return Err(ScriptError::Zero("driver script".into()));
    }
    Ok(filled)
}

/// What stands before and after the one line that is the place of the files.
fn halves(script: &str) -> Option<(&str, &str)> {
    let (before, after) = script.split_once(PLACE)?;
    let alone =
        before.chars().next_back().is_none_or(|last| last == '\n') && (after.is_empty() || after.starts_with('\n'));
    (alone && !after.contains(PLACE)).then(|| (before, after.trim_start_matches('\n')))
}

/// In a shell's text every value is quoted.
fn script_text(what: &str, text: &str, parameters: &Value) -> Result<String, ScriptError> {
    substitute_text(text, parameters, quoted).map_err(|error| ScriptError::Template(what.into(), error))
}

fn text_file(name: &str, text: &str, parameters: &Value) -> Result<String, ScriptError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "sh") {
        return script_text(name, text, parameters);
    }
    substitute_text(text, parameters, str::to_owned).map_err(|error| ScriptError::Template(name.into(), error))
}

fn manifest_file(name: &str, manifests: &Value, parameters: &Value) -> Result<String, ScriptError> {
    let filled = substitute(manifests, parameters).map_err(|error| ScriptError::Template(name.into(), error))?;
    let manifests = match filled {
        Some(Value::Array(manifests)) => manifests,
        Some(one) => vec![one],
        None => vec![],
    };
    if manifests.is_empty() || !manifests.iter().all(Value::is_object) {
        return Err(ScriptError::Shape(format!("{name:?} is neither a text, a manifest nor manifests")));
    }
    documents(&manifests).map_err(|error| ScriptError::Yaml(name.into(), error))
}

fn is_file_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with(['.', '-'])
}
