//! JSON of a closed schema, bounded before it is read.

use serde::de::DeserializeOwned;

use crate::refusal::{ReasonCode, Refusal};

/// Reads `json`, refusing with `code` what is longer than `limit` bytes or not of the schema.
pub(crate) fn from_json<T: DeserializeOwned>(json: &[u8], limit: usize, code: ReasonCode) -> Result<T, Refusal> {
    if json.len() > limit {
        return Err(Refusal::new(code, format!("{} bytes of JSON, at most {limit} are read", json.len())));
    }
    serde_json::from_slice(json).map_err(|error| Refusal::new(code, error.to_string()))
}
