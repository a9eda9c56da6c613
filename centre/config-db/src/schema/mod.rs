//! JSON Schema, draft 2020-12, of applications' entries.
//!
//! A schema is the entry of the application `CONFIG_SCHEMA` about another application. What it refers to must stand in itself:
//! nothing is fetched. Its regular expressions are automata, without back-references and look-around, so that none of them
//! takes longer than its text is long. What applies itself again and again is counted before it is done.

mod steps;

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::CONFIG_SCHEMA;
use serde_json::Value;

use crate::{Json, Model, Refusal};

/// The most bytes of a schema.
const LONGEST_SCHEMA: usize = 256 << 10;
/// The most memory of one regular expression's automaton.
const PATTERN_BYTES: usize = 256 << 10;
/// The most steps that hold an entry against a schema.
const MOST_STEPS: usize = 1_000_000;
/// How many errors a refusal names.
const NAMED_ERRORS: usize = 5;

/// Schemas that were compiled, by application; each of the revision that it was compiled from.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    compiled: HashMap<Uuid, (Uuid, Arc<Compiled>)>,
}

/// A schema, and what validates by it.
#[derive(Debug)]
pub(crate) struct Compiled {
    schema: Value,
    validator: Validator,
}

impl Schemas {
    /// Refuses a value that the schema of its application does not allow.
    pub(crate) fn check(&mut self, model: &Model, application: Uuid, json: &Json) -> Result<(), Refusal> {
        match self.of(model, application)? {
            Some(schema) => check(&schema, &json.value()).map_err(Refusal::Invalid),
            None => Ok(()),
        }
    }

    /// The schema of an application, if it has one.
    fn of(&mut self, model: &Model, application: Uuid) -> Result<Option<Arc<Compiled>>, Refusal> {
        let Some(revision) = model.etag(CONFIG_SCHEMA, application) else {
            self.compiled.remove(&application);
            return Ok(None);
        };
        if let Some((compiled_from, schema)) = self.compiled.get(&application)
            && *compiled_from == revision
        {
            return Ok(Some(Arc::clone(schema)));
        }
        let Some(entry) = model.entry(CONFIG_SCHEMA, application) else { return Ok(None) };
        let schema = Arc::new(compile(&entry.json)?);
        self.compiled.insert(application, (revision, Arc::clone(&schema)));
        Ok(Some(schema))
    }
}

/// Compiles a schema; a refusal says why it is none.
pub(crate) fn compile(schema: &Json) -> Result<Compiled, Refusal> {
    if schema.text().len() > LONGEST_SCHEMA {
        return Err(Refusal::Invalid(format!("a schema of more than {LONGEST_SCHEMA} bytes")));
    }
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES));
    let schema = schema.value();
    if let Some(out) = steps::leads_out(&schema) {
        return Err(Refusal::Invalid(format!(
            "this is no schema that is complete in itself: {out:?} leads out of it; refer to its parts by #, and give them no $id"
        )));
    }
    let validator = options.build(&schema).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "/".into() } else { place };
        Refusal::Invalid(format!(
            "this is no JSON Schema of draft 2020-12 that is complete in itself: at {place}: {error}"
        ))
    })?;
    Ok(Compiled { schema, validator })
}

/// Checks a value against a schema; the error names each place, up to [`NAMED_ERRORS`].
pub(crate) fn check(Compiled { schema, validator }: &Compiled, value: &Value) -> Result<(), String> {
    if !steps::are_at_most(MOST_STEPS, schema, value) {
        return Err(format!("it takes more than {MOST_STEPS} steps to hold it against the application's schema"));
    }
    let errors: Vec<String> = validator
        .iter_errors(value)
        .take(NAMED_ERRORS)
        .map(|error| {
            let place = error.instance_path().to_string();
            // The value itself may be long, or a secret.
            let message = error.masked_with("the value").to_string();
            format!("{}: {message}", if place.is_empty() { "/" } else { &place })
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(format!("not as the application's schema says: {}", errors.join("; "))) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn compiled(schema: &Value) -> Compiled {
        compile(&Json::of(schema)).unwrap()
    }

    fn refusal(schema: &Value) -> String {
        compile(&Json::of(schema)).unwrap_err().to_string()
    }

    #[test]
    fn formats_and_the_draft_are_checked() {
        let schema = compiled(&json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"id": {"format": "uuid"}}, "dependentRequired": {"a": ["b"]}}));
        assert!(check(&schema, &json!({"id": "f24d354d-abc1-4e32-98e1-0667b3e40b61"})).is_ok());
        let error = check(&schema, &json!({"id": "no uuid"})).unwrap_err();
        assert!(error.contains("/id") && !error.contains("no uuid"), "{error}");
        assert!(check(&schema, &json!({"a": 1})).is_err(), "a keyword of 2019-09 and later");
    }

    #[test]
    fn nothing_is_fetched() {
        for reference in ["https://example.com/schema.json", "http://127.0.0.1:1/", "file:///etc/passwd", "other.json"]
        {
            let error = refusal(&json!({"properties": {"a": {"$ref": reference}}}));
            assert!(error.contains("complete in itself"), "{error}");
        }
        let schema = compiled(&json!({"$defs": {"x": {"type": "string"}}, "$ref": "#/$defs/x"}));
        assert!(check(&schema, &json!(1)).is_err());
    }

    #[test]
    fn no_regular_expression_takes_for_ever() {
        let schema = compiled(&json!({"pattern": "^(a+)+$"}));
        let start = Instant::now();
        assert!(check(&schema, &json!("a".repeat(100_000) + "!")).is_err());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        refusal(&json!({"pattern": "(a)\\1"}));
        refusal(&json!({"pattern": "((a{1000}){1000}){1000}"}));
        refusal(&json!({"type": "no type"}));
        refusal(&json!(7));
    }

    #[test]
    fn a_schema_that_applies_itself_again_and_again_is_stopped() {
        let chain: serde_json::Map<_, _> = (0..60)
            .map(|at| {
                let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
                (format!("d{at}"), json!({"allOf": [next, next]}))
            })
            .chain([("d60".to_owned(), json!(true))])
            .collect();
        let again = json!({"properties": {"a": {"$ref": "#n"}}});
        let twice = json!({"$defs": {"n": {"$anchor": "n", "allOf": [again, again]}}, "$ref": "#/$defs/n"});
        let deep = (0..90).fold(json!({}), |value, _| json!({ "a": value }));
        for (schema, value) in
            [(json!({"$defs": chain, "$ref": "#/$defs/d0"}), json!(1)), (twice.clone(), deep.clone())]
        {
            let start = Instant::now();
            let error = check(&compiled(&schema), &value).unwrap_err();
            assert!(error.contains("steps"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        }
        assert!(check(&compiled(&twice), &json!({"a": {"a": {}}})).is_ok());
        let once =
            json!({"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}, "additionalProperties": false});
        assert!(check(&compiled(&once), &deep).is_ok());
        let long = json!({"b": vec![json!({"a": {}}); 20_000]});
        assert!(check(&compiled(&once), &long).is_ok(), "length alone is no reason");
    }

    #[test]
    fn no_part_of_a_schema_has_a_root_of_its_own() {
        for schema in [
            json!({"$defs": {"a": {"$id": "https://example.com/a"}}}),
            json!({"items": [{"$id": "a"}]}),
            json!({"$ref": "#/%24defs/a", "$defs": {"a": true}}),
        ] {
            assert!(refusal(&schema).contains("complete in itself"), "{schema}");
        }
        compiled(&json!({"$id": "https://example.com/a", "properties": {"$id": {"type": "string"}, "$ref": true}}));
        compiled(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            json!({"$dynamicAnchor": "a", "oneOf": [{"$dynamicRef": "#a"}]}),
        ] {
            if let Ok(schema) = compile(&Json::of(&schema)) {
                let _ = check(&schema, &json!({"a": [1]}));
            }
        }
    }
}
