//! How many steps it takes to hold a value against a schema, counted before it is done: a short schema that applies itself twice at
//! each level takes longer than anybody lives.

use std::collections::BTreeMap;

use serde_json::Value;

/// Keywords whose schema, or schemas, apply to the same value.
const SAME: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// Keywords whose schema, or schemas, may apply to each element of a list.
const ELEMENTS: [&str; 4] = ["items", "prefixItems", "contains", "unevaluatedItems"];
/// Keywords whose schema may apply to each value of an object.
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// Keywords that name another schema.
const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];
/// The draft's own schema, which the validator has.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// How deep schemas may be applied within each other: what applies itself to the same value would not end.
const DEEPEST: usize = 512;

/// Counts down; `None` where there are no more.
struct Steps<'a> {
    root: &'a Value,
    /// What `$anchor` and `$dynamicAnchor` name.
    anchors: BTreeMap<&'a str, Vec<&'a Value>>,
    left: usize,
    depth: usize,
}

/// Whether at most `most` steps hold `value` against `schema`. Each schema counts that could apply, whatever the others say.
pub(super) fn are_at_most(most: usize, schema: &Value, value: &Value) -> bool {
    let mut steps = Steps { root: schema, anchors: BTreeMap::new(), left: most, depth: 0 };
    name(schema, &mut steps.anchors);
    steps.apply(schema, value).is_some()
}

/// The first part of a schema that cannot be followed here: a reference that does not begin with `#`, or is encoded, but for that to
/// the draft's own schema; a schema within this one that has an identifier, and so a root, of its own.
pub(super) fn leads_out(schema: &Value) -> Option<&str> {
    schema.as_object()?.iter().find_map(|(keyword, value)| leads_out_by(keyword, value))
}

fn leads_out_by<'a>(keyword: &str, value: &'a Value) -> Option<&'a str> {
    match value {
        Value::Array(all) => all.iter().find_map(|value| leads_out_by("", value)),
        Value::Object(keywords) => keywords.iter().find_map(|(keyword, value)| match value {
            Value::String(id) if keyword == "$id" => Some(id.as_str()),
            value => leads_out_by(keyword, value),
        }),
        Value::String(to) if REFERENCES.contains(&keyword) => {
            let followed = to == DRAFT || (to.starts_with('#') && !to.contains('%'));
            (!followed).then_some(to)
        }
        _ => None,
    }
}

fn name<'a>(schema: &'a Value, anchors: &mut BTreeMap<&'a str, Vec<&'a Value>>) {
    match schema {
        Value::Array(all) => all.iter().for_each(|schema| name(schema, anchors)),
        Value::Object(keywords) => {
            for anchor in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(text)) = keywords.get(anchor) {
                    anchors.entry(text.as_str()).or_default().push(schema);
                }
            }
            keywords.values().for_each(|schema| name(schema, anchors));
        }
        _ => {}
    }
}

impl<'a> Steps<'a> {
    fn apply(&mut self, schema: &'a Value, value: &Value) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        for (keyword, inner) in keywords {
            match keyword.as_str() {
                "$ref" | "$dynamicRef" => {
                    for target in self.targets(inner.as_str().unwrap_or_default()) {
                        self.apply(target, value)?;
                    }
                }
                same if SAME.contains(&same) => self.apply_each(inner, value)?,
                "dependentSchemas" => {
                    for schema in inner.as_object().into_iter().flat_map(serde_json::Map::values) {
                        self.apply(schema, value)?;
                    }
                }
                "properties" => {
                    for (key, schema) in inner.as_object().into_iter().flatten() {
                        if let Some(member) = value.get(key) {
                            self.apply(schema, member)?;
                        }
                    }
                }
                "patternProperties" => {
                    for schema in inner.as_object().into_iter().flat_map(serde_json::Map::values) {
                        self.apply_to_members(schema, value)?;
                    }
                }
                "propertyNames" => {
                    for name in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                        self.apply(inner, &Value::String(name.clone()))?;
                    }
                }
                members if MEMBERS.contains(&members) => self.apply_to_members(inner, value)?,
                elements if ELEMENTS.contains(&elements) => {
                    for element in value.as_array().into_iter().flatten() {
                        self.apply_each(inner, element)?;
                    }
                }
                _ => {}
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// A schema, or each of a list of them.
    fn apply_each(&mut self, schemas: &'a Value, value: &Value) -> Option<()> {
        match schemas {
            Value::Array(all) => all.iter().try_for_each(|schema| self.apply(schema, value)),
            one => self.apply(one, value),
        }
    }

    fn apply_to_members(&mut self, schema: &'a Value, value: &Value) -> Option<()> {
        value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values)
            .try_for_each(|member| self.apply(schema, member))
    }

    /// What a reference within the schema means; nothing, where it means nothing.
    fn targets(&self, to: &str) -> Vec<&'a Value> {
        let Some(fragment) = to.strip_prefix('#') else { return Vec::new() };
        match self.anchors.get(fragment) {
            Some(named) => named.clone(),
            None => self.root.pointer(fragment).into_iter().collect(),
        }
    }
}
