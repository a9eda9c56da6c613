//! What is written as YAML is what a reader of YAML 1.1 reads; Flux and kubectl read that version.

use latchkey_cluster_manager::manifests::documents;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::oracles::programs::python;

/// Reads streams of documents, and tells what each holds; a float as an array of a word and its text, for its last
/// bit's sake.
const READ: &str = r#"
import json, sys, yaml
def marked(value):
    if isinstance(value, float): return ["a float", repr(value)]
    if isinstance(value, list): return [marked(one) for one in value]
    if isinstance(value, dict): return {key: marked(one) for key, one in value.items()}
    return value
print(json.dumps([marked(list(yaml.safe_load_all(one))) for one in json.load(open(sys.argv[1]))]))
"#;

/// Texts that some reader takes for something else when they are not quoted.
const TEXTS: [&str; 62] = [
    "123",
    "-1",
    "0x1F",
    "0o17",
    "017",
    "0b101",
    "1_000",
    "1e3",
    "1.5",
    ".5",
    "5.",
    "+1",
    ".inf",
    "-.INF",
    ".nan",
    "1:30",
    "190:20:30.15",
    "true",
    "True",
    "TRUE",
    "false",
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "N",
    "null",
    "Null",
    "~",
    "",
    "2001-12-14",
    "2001-12-14t21:59:43.10-05:00",
    "<<",
    "=",
    "*anchor",
    "&anchor",
    "!tag",
    "@at",
    "`tick",
    "%directive",
    "- item",
    "-",
    "? key",
    "key: value",
    "a:",
    "#comment",
    "a #b",
    "[a]",
    "{a: b}",
    "'single'",
    "\"double\"",
    "back\\slash",
    " leading",
    "trailing ",
    "line\nline",
    "line\n",
    "\n",
    "tab\there",
    "$(reboot)",
    "---",
    "...",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(TEXTS.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,120}",
        1 => any::<String>(),
        1 => "[\u{0}-\u{a0}\u{2028}\u{2029}\u{feff}\u{fffd}\u{10ffff}\n ]{0,12}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_filter("JSON has no others", |float| float.is_finite()).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec((text(), inner), 0..6).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

#[test]
fn a_reader_of_yaml_1_1_reads_what_was_written() {
    let mut runner = TestRunner::deterministic();
    let mut streams: Vec<Vec<Value>> =
        TEXTS.iter().map(|one| vec![json!(one), json!({*one: one, "list": [one]}), json!([[one]])]).collect();
    streams.extend((0..1_500).map(|_| vec![value().new_tree(&mut runner).unwrap().current(), json!({"last": true})]));
    let written: Vec<Value> = streams.iter().map(|one| documents(one).unwrap().into()).collect();
    let Some(read) = python(READ, &Value::Array(written.clone())) else { return };
    for ((meant, read), written) in streams.iter().zip(read.as_array().unwrap()).zip(&written) {
        assert!(
            same(&Value::Array(meant.clone()), read),
            "{meant:?} was read as {read}\n{}",
            written.as_str().unwrap()
        );
    }
}

/// Whether what was read is what was meant.
fn same(meant: &Value, read: &Value) -> bool {
    match (meant, read) {
        (Value::Number(meant), read) if meant.is_f64() => {
            read[0] == "a float" && read[1].as_str().and_then(|text| text.parse().ok()) == meant.as_f64()
        }
        (Value::Array(meant), Value::Array(read)) => {
            meant.len() == read.len() && meant.iter().zip(read).all(|(meant, read)| same(meant, read))
        }
        (Value::Object(meant), Value::Object(read)) => {
            let told = |(key, value)| read.get(key).is_some_and(|read| same(value, read));
            meant.len() == read.len() && meant.iter().all(told)
        }
        _ => meant == read,
    }
}
