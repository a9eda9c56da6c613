//! Merge patches (RFC 7396), and filters made of them.

use serde_json::{Map, Value};

use crate::Json;

/// Why nothing is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The patch would replace the whole value (RFC 7396, section 2). Nobody who means that sends a patch.
    #[error("a merge patch of an entry is a JSON object; PUT replaces an entry")]
    PatchIsNoObject,
    /// The patch would replace what is there, to the last key.
    #[error("the entry is no JSON object, so there is nothing to merge into; use PUT")]
    ValueIsNoObject,
}

impl Json {
    /// What a merge patch makes of a value; `None` stands for no value, which becomes an object. Nulls in the patch take keys away.
    ///
    /// # Errors
    /// [`MergeError`]. How long and how deep the new value is, is not looked at.
    pub fn merged(value: Option<&Self>, patch: &Self) -> Result<Self, MergeError> {
        let Value::Object(changes) = patch.value() else { return Err(MergeError::PatchIsNoObject) };
        let value = value.map(Self::value);
        if value.as_ref().is_some_and(|value| !value.is_object()) {
            return Err(MergeError::ValueIsNoObject);
        }
        Ok(Self::from(Value::Object(merged(value, changes))))
    }
}

fn merged(value: Option<Value>, patch: Map<String, Value>) -> Map<String, Value> {
    let mut merged_object = match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    for (key, change) in patch {
        match change {
            Value::Null => drop(merged_object.remove(&key)),
            Value::Object(inner) => {
                let before = merged_object.remove(&key);
                merged_object.insert(key, Value::Object(merged(before, inner)));
            }
            other => drop(merged_object.insert(key, other)),
        }
    }
    merged_object
}

/// Whether a patch would leave a value as it is: all that it names is there, and what it takes away is not. Arrays are equal
/// or not, as a whole.
pub fn is_met(filter: &Value, value: &Value) -> bool {
    let Value::Object(wanted) = filter else { return filter == value };
    let Value::Object(found) = value else { return false };
    wanted.iter().all(|(key, wanted)| match (wanted, found.get(key)) {
        (Value::Null, found) => found.is_none(),
        (wanted, Some(found)) => is_met(wanted, found),
        (_, None) => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_objects_are_merged() {
        let merged = |value: Option<Value>, patch: Value| {
            let value = value.map(|value| Json::of(&value));
            Json::merged(value.as_ref(), &Json::of(&patch)).map(|json| json.value())
        };
        assert_eq!(merged(None, json!({"b": 1, "a": null})), Ok(json!({"b": 1})));
        assert_eq!(merged(Some(json!({"b": 1})), json!({"a": 2})), Ok(json!({"a": 2, "b": 1})));
        assert_eq!(merged(Some(json!([1])), json!({})), Err(MergeError::ValueIsNoObject));
        assert_eq!(merged(Some(json!({})), json!([1])), Err(MergeError::PatchIsNoObject));
    }

    fn patched(value: Value, patch: Value) -> Value {
        let Value::Object(patch) = patch else { panic!("no object") };
        Value::Object(merged(Some(value), patch))
    }

    #[test]
    fn the_examples_of_the_rfc_whose_patch_is_an_object() {
        for (value, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(patched(value, patch), result);
        }
    }

    #[test]
    fn a_filter_is_met_where_its_patch_would_change_nothing() {
        let value = json!({"cluster": "c", "list": [1, {"a": 2}], "deep": {"x": 0, "y": false}});
        for (filter, met) in [
            (json!({}), true),
            (json!({"cluster": "c"}), true),
            (json!({"cluster": "d"}), false),
            (json!({"deep": {"x": 0}}), true),
            (json!({"deep": {"z": null}}), true),
            (json!({"deep": {"y": null}}), false),
            (json!({"list": [1, {"a": 2}]}), true), // the original throws
            (json!({"list": [1]}), false),
            (json!({"cluster": {"a": 1}}), false),
            (json!({"missing": {}}), false),
            (json!(1), false),
        ] {
            assert_eq!(is_met(&filter, &value), met, "{filter}");
        }
        assert!(is_met(&json!(0), &json!(0)) && !is_met(&json!({}), &json!(false)));
    }
}
