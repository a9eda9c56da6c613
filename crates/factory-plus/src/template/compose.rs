//! Merge patches put together.

use serde_json::{Map, Value};

/// The deepest that patches are merged; what is deeper is taken from the later one whole.
pub const MAX_PATCH_DEPTH: usize = 64;

/// One merge patch (RFC 7396) that does what `first` and then `second` do.
///
/// A null stays where it is: it takes away what the patch is put on in the end, such as a chart's default value. Where
/// `second` has an object in the place of such a null, the object is what is left: no merge patch says both.
#[must_use]
pub fn compose(first: Value, second: Value) -> Value {
    compose_within(first, second, 0)
}

/// The same of two objects.
#[must_use]
pub fn compose_maps(first: Map<String, Value>, second: Map<String, Value>) -> Map<String, Value> {
    match compose(Value::Object(first), Value::Object(second)) {
        Value::Object(both) => both,
        _ => Map::new(),
    }
}

fn compose_within(first: Value, second: Value, depth: usize) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) if depth < MAX_PATCH_DEPTH => {
            for (key, value) in second {
                let value = match first.remove(&key) {
                    Some(before) => compose_within(before, value, depth + 1),
                    None => value,
                };
                first.insert(key, value);
            }
            Value::Object(first)
        }
        (_, second) => second,
    }
}
