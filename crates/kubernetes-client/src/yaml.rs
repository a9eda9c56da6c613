//! YAML as kubeconfigs are written in it, which JSON is as well: one document of mappings, lists and text. What has no place there
//! (anchors, aliases, tags, keys that are no text, a key twice) is refused.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Deeper than a kubeconfig gets.
const MAX_DEPTH: usize = 16;

/// A list or a mapping that has not ended.
enum Open {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Mapping(Map<String, Value>, Option<String>),
}

/// Reads the document. The error says what is wrong, and never what the document says.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let (mut open, mut document): (Vec<Open>, Option<Value>) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| format!("it is no YAML: {error}"))?;
        let value = match event {
            Event::Scalar(text, style, 0, None) => Some(scalar(&text, style)),
            Event::SequenceStart(_, 0, None) => {
                open.push(Open::List(Vec::new()));
                None
            }
            Event::MappingStart(_, 0, None) => {
                open.push(Open::Mapping(Map::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Some(Value::Array(items)),
                Some(Open::Mapping(fields, None)) => Some(Value::Object(fields)),
                _ => return Err("a mapping ends within a field".to_owned()),
            },
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Comment(..) => None,
            _ => return Err("anchors, aliases and tags are not read".to_owned()),
        };
        if open.len() > MAX_DEPTH {
            return Err(format!("it is deeper than {MAX_DEPTH}"));
        }
        let Some(value) = value else { continue };
        match open.last_mut() {
            Some(Open::List(items)) => items.push(value),
            Some(Open::Mapping(fields, key)) => put(fields, key, value)?,
            None if document.is_none() => document = Some(value),
            None => return Err("there is more than one document".to_owned()),
        }
    }
    document.ok_or_else(|| "it is empty".to_owned())
}

fn put(fields: &mut Map<String, Value>, key: &mut Option<String>, value: Value) -> Result<(), String> {
    match (key.take(), value) {
        (Some(key), value) => match fields.insert(key, value) {
            None => Ok(()),
            Some(_) => Err("a key is there twice".to_owned()),
        },
        (None, Value::String(text)) => {
            *key = Some(text);
            Ok(())
        }
        (None, _) => Err("a key is no text".to_owned()),
    }
}

/// Numbers stay text: nothing here is one.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null") => Value::Null,
        (ScalarStyle::Plain, "true") => Value::Bool(true),
        (ScalarStyle::Plain, "false") => Value::Bool(false),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    const WHOLE: &str =
        "apiVersion: v1\nusers:\n- name: me\n  user:\n    token: \"se\\ncret\"\n    x: {a: [1, 'b'], c: |-\n  - d\n";

    proptest! {
        /// A kubeconfig in which bytes changed, and any other text.
        #[test]
        fn hostile_text_is_read_or_refused(changes in vec((0..WHOLE.len(), any::<u8>()), 0..8), any in "\\PC{0,64}|[-:?\\[\\]{}&*!|>'\"%@` \n\ta0,#]{0,96}") {
            let mut bytes = WHOLE.as_bytes().to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            for text in [&*String::from_utf8_lossy(&bytes), &any] {
                if let Ok(value) = parse(text) {
                    // What was read is written as JSON, which is read as the same.
                    prop_assert_eq!(parse(&value.to_string()).map(|again| again == value), Ok(true));
                }
            }
        }
    }

    #[test]
    fn blocks_and_json_are_read_alike() {
        let block = "# made by hand\na:\n- b: 1\n  c: 'true'\n- ~\nd: true\ne: |\n  two\n  lines\n";
        let wanted = json!({ "a": [{ "b": "1", "c": "true" }, null], "d": true, "e": "two\nlines\n" });
        assert_eq!(parse(block).unwrap(), wanted);
        let flow = r#"{"a": [{"b": "1", "c": "true"}, null], "d": true, "e": "two\nlines\n"}"#;
        assert_eq!(parse(flow).unwrap(), wanted);
    }

    #[test]
    fn what_has_no_place_in_a_kubeconfig_is_refused_and_not_repeated() {
        for text in [
            "",
            "a: &x hush\nb: *x",
            "a: *x",
            "a: !!binary hush",
            "? [hush]\n: 1",
            "a: hush\na: hush",
            "a: hush\n---\nb: hush",
            "a: [hush",
            "a: \"hush",
            "\thush: 1\n\t- hush",
            &"[".repeat(100_000),
            &format!("{}{}", "[".repeat(17), "]".repeat(17)),
            &"- ".repeat(100_000),
            &"{a: ".repeat(10_000),
        ] {
            let why = parse(text).unwrap_err();
            assert!(!why.contains("hush"), "{text:.40}: {why}");
        }
        assert!(parse(&format!("{}{}", "[".repeat(16), "]".repeat(16))).is_ok());
    }
}
