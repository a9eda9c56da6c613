//! Templates in JSON: `{{name}}` in strings and keys stands for a parameter.
//!
//! What people wrote for the npm package `json-templates` 5.2.0 means the same here:
//!
//! * a string that is one placeholder becomes the parameter's value, of whatever type; where there is none, its key
//!   goes
//! * in a longer string the value is put in as text; where there is none, nothing is
//! * spaces inside the braces say nothing; `{{a.b.0}}` goes into objects and arrays; `{{a:text}}` has a default
//!
//! Three things are stricter, since values come from people: a value is text and is never read again as a template or
//! as a pattern of replacement; an object or array inside a longer string, or as a key, is an error, and so is a key
//! without a value; two keys that become one are an error.

mod compose;
mod entry;
mod parse;
mod text;

use serde_json::{Map, Value};

pub use compose::{MAX_PATCH_DEPTH, compose, compose_maps};
pub use entry::{EntryError, substitute_entry};
use parse::{Piece, Placeholder};

/// The deepest template.
pub const MAX_DEPTH: usize = 64;
/// The most bytes of strings that a substitution makes.
pub const MAX_BYTES: usize = 4 << 20;
/// The most values that a substitution makes.
pub const MAX_VALUES: usize = 100_000;

/// Why a template gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is nested deeper than [`MAX_DEPTH`].
    #[error("the template is nested more than {MAX_DEPTH} deep; make it flatter")]
    TooDeep,
    /// What it makes is larger than [`MAX_BYTES`] or [`MAX_VALUES`].
    #[error("the template makes more than {MAX_BYTES} bytes or {MAX_VALUES} values; make it smaller")]
    TooLarge,
    /// An object or array where text is wanted.
    #[error(
        "{{{{{0}}}}} is an object or an array, and stands inside other text or in a key; let it be the whole string"
    )]
    NotText(String),
    /// A key without a value.
    #[error("the key {{{{{0}}}}} has no value; name a parameter that exists, or give it a default")]
    NoKey(String),
    /// A placeholder without a value, in a text that needs one.
    #[error("{{{{{0}}}}} has no value here; name a parameter that exists, or give it a default")]
    NoValue(String),
    /// Two keys that become one.
    #[error("two keys of one object become {0:?}; name them apart")]
    TwoKeys(String),
}

/// What a template gives for `parameters`, an object. `None` where the template is one placeholder without a value.
pub fn substitute(template: &Value, parameters: &Value) -> Result<Option<Value>, TemplateError> {
    Substitution { parameters, bytes: 0, values: 0 }.value(template, 0)
}

/// What a text gives: like [`substitute`], but a placeholder without a value is an error, and every value passes
/// `quote` before it is put in. For languages that are no JSON, such as the shell's.
pub fn substitute_text(
    template: &str,
    parameters: &Value,
    quote: impl Fn(&str) -> String,
) -> Result<String, TemplateError> {
    let mut made = String::new();
    for piece in parse::pieces(template) {
        match piece {
            Piece::Text(literal) => made.push_str(literal),
            Piece::Placeholder(placeholder) => {
                let value =
                    found(parameters, &placeholder).ok_or_else(|| TemplateError::NoValue(placeholder.name.into()))?;
                made.push_str(&quote(&as_text(&value, &placeholder)?));
            }
        }
        if made.len() > MAX_BYTES {
            return Err(TemplateError::TooLarge);
        }
    }
    Ok(made)
}

struct Substitution<'a> {
    parameters: &'a Value,
    bytes: usize,
    values: usize,
}

impl Substitution<'_> {
    fn value(&mut self, template: &Value, depth: usize) -> Result<Option<Value>, TemplateError> {
        if depth > MAX_DEPTH {
            return Err(TemplateError::TooDeep);
        }
        self.count(1, 0)?;
        match template {
            Value::String(text) => self.string(text, depth),
            Value::Array(elements) => {
                // An array keeps its places: JSON writes an element that is nothing as null.
                let made = elements.iter().map(|element| Ok(self.value(element, depth + 1)?.unwrap_or(Value::Null)));
                Ok(Some(Value::Array(made.collect::<Result<_, TemplateError>>()?)))
            }
            Value::Object(fields) => self.object(fields, depth),
            other => Ok(Some(other.clone())),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Option<Value>, TemplateError> {
        let mut made = Map::new();
        for (key, value) in fields {
            let Some(name) = self.string(key, depth)? else { return Err(TemplateError::NoKey(key.clone())) };
            let name = match name {
                Value::String(name) => name,
                Value::Object(_) | Value::Array(_) => return Err(TemplateError::NotText(key.clone())),
                other => text::of(&other).unwrap_or_default(),
            };
            if made.contains_key(&name) {
                return Err(TemplateError::TwoKeys(name));
            }
            if let Some(value) = self.value(value, depth + 1)? {
                made.insert(name, value);
            }
        }
        Ok(Some(Value::Object(made)))
    }

    fn string(&mut self, template: &str, depth: usize) -> Result<Option<Value>, TemplateError> {
        if let Some(placeholder) = parse::whole(template) {
            let value = found(self.parameters, &placeholder);
            if let Some(value) = &value {
                self.measure(value, depth)?;
            }
            return Ok(value);
        }
        let mut made = String::new();
        for piece in parse::pieces(template) {
            match piece {
                Piece::Text(literal) => made.push_str(literal),
                Piece::Placeholder(placeholder) => {
                    if let Some(value) = found(self.parameters, &placeholder) {
                        made.push_str(&as_text(&value, &placeholder)?);
                    }
                }
            }
            if made.len() > MAX_BYTES {
                return Err(TemplateError::TooLarge);
            }
        }
        self.count(0, made.len())?;
        Ok(Some(Value::String(made)))
    }

    /// Counts a value that is put in whole, as deep as it is.
    fn measure(&mut self, value: &Value, depth: usize) -> Result<(), TemplateError> {
        if depth > MAX_DEPTH {
            return Err(TemplateError::TooDeep);
        }
        match value {
            Value::String(text) => self.count(1, text.len()),
            Value::Array(elements) => {
                self.count(1, 0)?;
                elements.iter().try_for_each(|element| self.measure(element, depth + 1))
            }
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                self.count(1, key.len())?;
                self.measure(value, depth + 1)
            }),
            _ => self.count(1, 0),
        }
    }

    fn count(&mut self, values: usize, bytes: usize) -> Result<(), TemplateError> {
        self.values += values;
        self.bytes += bytes;
        if self.values > MAX_VALUES || self.bytes > MAX_BYTES { Err(TemplateError::TooLarge) } else { Ok(()) }
    }
}

/// The value of a placeholder: the parameter, or else its default. Null is a value.
fn found(parameters: &Value, placeholder: &Placeholder<'_>) -> Option<Value> {
    let mut at = Some(parameters);
    for step in placeholder.name.split('.') {
        at = match at {
            Some(Value::Object(fields)) => fields.get(step),
            Some(Value::Array(elements)) => index(step).and_then(|index| elements.get(index)),
            _ => None,
        };
    }
    at.cloned().or_else(|| placeholder.default.map(Value::from))
}

/// A place in an array, written in the one way that numbers are: no sign, no zero before it.
fn index(step: &str) -> Option<usize> {
    let number: usize = step.parse().ok()?;
    (number.to_string() == step).then_some(number)
}

fn as_text(value: &Value, placeholder: &Placeholder<'_>) -> Result<String, TemplateError> {
    match value {
        Value::Null => Ok(String::new()),
        other => text::of(other).ok_or_else(|| TemplateError::NotText(placeholder.name.into())),
    }
}

#[cfg(test)]
mod tests;
