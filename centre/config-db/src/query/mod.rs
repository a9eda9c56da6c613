//! The search of version 1: `PATH=SCALAR` conditions and `@NAME=PATH` projections in a query string.
//!
//! Paths are as in the lax mode of SQL/JSON: a key of an array is that key of each of its elements, and an array that is
//! compared is each of its elements.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Which entries are meant, and what is asked for of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    conditions: Vec<Condition>,
    /// By name. Without any, the answer is a list of objects.
    projections: BTreeMap<String, Path>,
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    path: Path,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted {
    Nothing,
    Scalar(Value),
}

/// Keys, from the outside in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Path(Vec<String>);

/// Why a query string is no search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// More than [`MOST_TERMS`] terms, or more than [`LONGEST`] bytes.
    #[error("a search has at most {MOST_TERMS} terms and {LONGEST} bytes")]
    TooLong,
    /// A part between `&` that is not `KEY=VALUE`, or not URL-encoded UTF-8.
    #[error("{0:?} is no KEY=VALUE in the encoding of URLs")]
    Term(String),
    /// A path.
    #[error("{0:?} is no path; one is identifiers with dots between them, such as spec.name")]
    Path(String),
    /// A value.
    #[error("{0:?} is neither a JSON string, number, true, false or null, nor the word undefined; strings have quotes")]
    Scalar(String),
    /// A projection's name.
    #[error("{0:?} cannot be the name of a projection: a name is an identifier, stands once, and is not \"uuid\"")]
    Name(String),
}

/// The most terms of a search.
const MOST_TERMS: usize = 32;
/// The most bytes of a query string.
const LONGEST: usize = 8192;

impl Query {
    /// Reads what stands behind a URL's `?`.
    pub fn parse(query_string: &str) -> Result<Self, QueryError> {
        if query_string.len() > LONGEST {
            return Err(QueryError::TooLong);
        }
        let mut query = Self::default();
        for (number, term) in query_string.split('&').filter(|term| !term.is_empty()).enumerate() {
            if number == MOST_TERMS {
                return Err(QueryError::TooLong);
            }
            let (key, value) = term.split_once('=').ok_or_else(|| QueryError::Term(term.into()))?;
            let (key, value) = (decoded(key)?, decoded(value)?);
            match key.strip_prefix('@') {
                Some(name) => query.project(name, &value)?,
                None => query.conditions.push(Condition { path: Path::parse(&key)?, wanted: Wanted::parse(&value)? }),
            }
        }
        Ok(query)
    }

    fn project(&mut self, name: &str, path: &str) -> Result<(), QueryError> {
        let refused = || QueryError::Name(name.into());
        if !is_identifier(name) || name == "uuid" {
            return Err(refused());
        }
        match self.projections.insert(name.into(), Path::parse(path)?) {
            None => Ok(()),
            Some(_) => Err(refused()),
        }
    }

    /// Whether a value meets all conditions.
    pub fn matches(&self, value: &Value) -> bool {
        self.conditions.iter().all(|condition| {
            let found = condition.path.find(value);
            match &condition.wanted {
                Wanted::Nothing => found.is_empty(),
                Wanted::Scalar(wanted) => found.into_iter().flat_map(unwrapped).any(|found| equal(found, wanted)),
            }
        })
    }

    /// Whether anything but the objects is asked for.
    pub fn projects(&self) -> bool {
        !self.projections.is_empty()
    }

    /// What is asked for of a value; what is not there, or null, is left out.
    pub fn project_value(&self, value: &Value) -> Map<String, Value> {
        let found = self.projections.iter().filter_map(|(name, path)| {
            let first = path.find(value).into_iter().next()?;
            (!first.is_null()).then(|| (name.clone(), first.clone()))
        });
        found.collect()
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, QueryError> {
        let keys: Vec<String> = text.split('.').map(str::to_owned).collect();
        if keys.iter().all(|key| is_identifier(key)) { Ok(Self(keys)) } else { Err(QueryError::Path(text.into())) }
    }

    fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for key in &self.0 {
            found = found.into_iter().flat_map(unwrapped).filter_map(|value| value.as_object()?.get(key)).collect();
        }
        found
    }
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, QueryError> {
        if text == "undefined" {
            return Ok(Self::Nothing);
        }
        match serde_json::from_str(text) {
            Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => Ok(Self::Scalar(value)),
            _ => Err(QueryError::Scalar(text.into())),
        }
    }
}

/// An array's elements; anything else itself.
fn unwrapped(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(elements) => Box::new(elements.iter()),
        other => Box::new(std::iter::once(other)),
    }
}

/// Numbers are equal by what they mean: 1 is 1.0.
fn equal(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => {
            found == wanted
                || matches!((found.as_f64(), wanted.as_f64()), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
        }
        _ => found == wanted,
    }
}

fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_' || first == '$')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_' || other == '$')
}

/// Undoes the encoding of URLs, and of forms: `+` is a space.
fn decoded(text: &str) -> Result<String, QueryError> {
    let refused = || QueryError::Term(text.into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next()).ok_or_else(refused)?, digit(rest.next()).ok_or_else(refused)?);
                u8::try_from(high << 4 | low).map_err(|_| refused())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

#[cfg(test)]
mod tests;
