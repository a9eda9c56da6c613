//! JSON values as the database keeps them: one text for each value.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::scan::outside_strings;

/// The most bytes of an entry's JSON text.
pub const LONGEST_JSON: usize = 1 << 20;

/// The most levels of an entry's arrays and objects. Readers stop at 127, and what they read has the entry some levels deep.
pub const DEEPEST_JSON: usize = 100;

/// A JSON value, as text with sorted keys and no spaces: two values are equal if their texts are. Numbers are as they were
/// written: 1 and 1.0 are two values.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

/// Why bytes are no JSON value that is kept.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// See [`LONGEST_JSON`].
    #[error("{0} bytes of JSON; at most {LONGEST_JSON} are kept")]
    TooLong(usize),
    /// No JSON, or nested more than 127 levels.
    #[error("this is no JSON: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl Json {
    /// Reads a body or a stored text.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        if bytes.len() > LONGEST_JSON {
            return Err(JsonError::TooLong(bytes.len()));
        }
        Ok(Self::from(serde_json::from_slice::<Value>(bytes)?))
    }

    /// The text of a value.
    pub fn of(value: &Value) -> Self {
        Self::from(value.clone())
    }

    /// A text as it is kept.
    pub(crate) fn sorted(text: String) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// How many arrays and objects are within each other: 0 for a scalar.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0, 0);
        for (_, byte) in outside_strings(&self.0) {
            match byte {
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth -= 1,
                _ => {}
            }
        }
        deepest
    }

    /// The value.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|error| unreachable!("{self} was JSON: {error}"))
    }
}

impl From<Value> for Json {
    fn from(mut value: Value) -> Self {
        // A map keeps the order of its text where another crate of the program asks serde_json for that.
        value.sort_all_objects();
        Self(value.to_string().into())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_is_outside_of_strings() {
        for (text, depth) in
            [("1", 0), ("\"[[[\"", 0), ("[]", 1), (r#"{"a\"[": [{"b\\": "]"}], "c": {}}"#, 3), ("[[],[[]],[]]", 3)]
        {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().depth(), depth, "{text}");
        }
    }
}
