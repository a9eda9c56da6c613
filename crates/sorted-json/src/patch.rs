//! Merge patches (RFC 7396), and filters made of them.

use std::cmp::Ordering;

use serde_json::Value;

use crate::Json;
use crate::members::{Member, Members};

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
        let changes = Members::of(patch.text()).ok_or(MergeError::PatchIsNoObject)?;
        let before = value.map_or(Some(Members::default()), |value| Members::of(value.text()));
        let before = before.ok_or(MergeError::ValueIsNoObject)?;
        let longest = value.map_or(0, |value| value.text().len()) + patch.text().len();
        let mut text = String::with_capacity(longest.max(2));
        merge(before, changes, &mut text);
        Ok(Self::sorted(text))
    }
}

/// Writes the object that a patch makes of an object. Both have their keys in order, so that each is read once, and what is the same
/// before and after is copied as it stands. A byte is looked at once for each object that it is in, of which readers take 127.
fn merge(before: Members<'_>, changes: Members<'_>, text: &mut String) {
    text.push('{');
    let (mut before, mut changes) = (before.peekable(), changes.peekable());
    loop {
        let order = match (before.peek(), changes.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(change)) => before.name.cmp(&change.name),
        };
        let kept = if order.is_le() { before.next() } else { None };
        match (if order.is_ge() { changes.next() } else { None }, kept) {
            (None, None) | (Some(Member { value: "null", .. }), _) => {}
            (None, Some(kept)) => kept.begin(text).push_str(kept.value),
            (Some(change), kept) => {
                let text = change.begin(text);
                match Members::of(change.value) {
                    None => text.push_str(change.value),
                    // What is no object is replaced by one (RFC 7396, section 2), from which nothing is to be taken.
                    Some(inner) => {
                        merge(kept.and_then(|kept| Members::of(kept.value)).unwrap_or_default(), inner, text);
                    }
                }
            }
        }
    }
    text.push('}');
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
    use proptest::collection::btree_map;
    use proptest::prelude::*;
    use proptest::sample;
    use serde_json::{Map, json};

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

    fn patched(value: &Value, patch: &Value) -> Result<Value, MergeError> {
        Json::merged(Some(&Json::of(value)), &Json::of(patch)).map(|json| json.value())
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
            (json!({"a": [1, 2]}), json!({"a": {"a": "b", "c": null}}), json!({"a": {"a": "b"}})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(patched(&value, &patch), Ok(result));
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

    /// The algorithm as the RFC has it (section 2), on trees.
    fn as_the_rfc_has_it(target: Value, patch: Value) -> Value {
        let Value::Object(patch) = patch else { return patch };
        let mut object = match target {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        for (name, value) in patch {
            let before = object.remove(&name).unwrap_or(Value::Null);
            if !value.is_null() {
                object.insert(name, as_the_rfc_has_it(before, value));
            }
        }
        Value::Object(object)
    }

    /// Few names, so that values and patches meet; some whose texts are in another order than they are.
    fn values() -> impl Strategy<Value = Value> {
        let names =
            sample::select(vec!["", "a", "a\"", "a\n", "a ", "a!", "a]", "b\\", "b", "null", "\u{1f511}", "{", "é"]);
        let leaves = prop_oneof![
            Just(json!(null)),
            Just(json!([])),
            Just(json!([{"b": 1, "a": null}, "]}"])),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            names.clone().prop_map(Value::from),
        ];
        leaves.prop_recursive(4, 40, 6, move |inner| {
            btree_map(names.clone().prop_map(str::to_owned), inner, 0..6).prop_map(|map| map.into_iter().collect())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn texts_are_merged_as_the_rfc_merges_trees(value in values(), patch in values()) {
            let merged = Json::merged(Some(&Json::of(&value)), &Json::of(&patch));
            let expected = match (patch.is_object(), value.is_object()) {
                (false, _) => Err(MergeError::PatchIsNoObject),
                (true, false) => Err(MergeError::ValueIsNoObject),
                (true, true) => Ok(Json::of(&as_the_rfc_has_it(value, patch))),
            };
            prop_assert_eq!(merged, expected);
        }
    }
}
