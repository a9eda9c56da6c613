//! Scalars as text.

use serde_json::{Number, Value};

/// What ECMAScript writes a scalar as; `None` for objects and arrays.
pub(super) fn of(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("null".into()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(number(value)),
        Value::String(value) => Some(value.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// A whole number has no point, whatever it was written with; no number has an exponent.
fn number(value: &Number) -> String {
    match value.as_f64() {
        Some(float) if value.is_f64() => {
            if float == 0.0 {
                "0".into()
            } else {
                float.to_string()
            }
        }
        _ => value.to_string(),
    }
}
