//! Templates mean what they mean to the npm package json-templates 5.2.0.

use latchkey_factory_plus::template::{TemplateError, substitute};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::oracles::programs::node;

/// Parts of strings: placeholders of every kind, and what looks like one.
const PARTS: [&str; 42] = [
    "{{text}}",
    "{{ text }}",
    "{{  text}}",
    "{{\u{a0}text\u{feff}}}",
    "{{\ntext\t}}",
    "{{\u{85}text}}",
    "{{number}}",
    "{{half}}",
    "{{yes}}",
    "{{none}}",
    "{{none:other}}",
    "{{empty}}",
    "{{object.key}}",
    "{{object.deep.key}}",
    "{{object.gone}}",
    "{{object}}",
    "{{list}}",
    "{{list.0}}",
    "{{list.01}}",
    "{{list.9}}",
    "{{list.1.key}}",
    "{{gone}}",
    "{{gone:other}}",
    "{{gone: two words }}",
    "{{gone:}}",
    "{{ gone:x}}",
    "{{gone :x}}",
    "{{gone.}}",
    "{{.gone}}",
    "{{$dollar}}",
    "{{_under-score}}",
    "{{}}",
    "{{1a}}",
    "{{a b}}",
    "{{{text}}}",
    "{{text}",
    "{{{{text}}}}",
    "{{ümlaut}}",
    "plain",
    " ",
    "é}}",
    "$&",
];

fn parameters() -> Value {
    json!({
        "text": "a text", "number": 7, "half": 1.5, "yes": true, "none": null, "empty": "",
        "object": {"key": "value", "deep": {"key": [1, null]}}, "list": ["first", {"key": false}],
        "$dollar": "euro", "_under-score": "u", "ümlaut": "ü",
    })
}

fn string() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop::sample::select(PARTS.to_vec()), 1..4).prop_map(|parts| parts.concat())
}

fn template() -> impl Strategy<Value = Value> {
    let other = prop::sample::select(vec![json!(null), json!(3), json!(true)]);
    let leaf = prop_oneof![3 => string().prop_map(Value::from), 1 => other];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::vec((prop_oneof![2 => "[a-z]{1,3}", 1 => string()], inner), 0..5)
                .prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

#[test]
fn templates_mean_what_they_mean_to_json_templates() {
    let mut runner = TestRunner::deterministic();
    let mut templates: Vec<Value> =
        PARTS.iter().flat_map(|part| [json!(part), json!(format!(" {part}")), json!({"k": part})]).collect();
    templates.extend((0..3_000).map(|_| template().new_tree(&mut runner).unwrap().current()));
    let cases: Vec<Value> = templates.iter().map(|one| json!({"template": one, "parameters": parameters()})).collect();
    let Some(judged) = node("templates.js", &Value::Array(cases)) else { return };
    let mut stricter = 0;
    for (template, judged) in templates.iter().zip(judged.as_array().unwrap()) {
        match substitute(template, &parameters()) {
            Ok(value) => assert_eq!(value.as_ref(), judged.get("value"), "{template}"),
            Err(TemplateError::NotText(_) | TemplateError::NoKey(_) | TemplateError::TwoKeys(_)) => stricter += 1,
            Err(other) => panic!("{template}: {other}"),
        }
    }
    // Only objects in texts, and keys that are nothing or twice there, are judged here alone.
    assert!(stricter * 3 < templates.len(), "{stricter} of {} templates are errors", templates.len());
}
