//! What is stricter than the original, and the bounds. What is the same, `tests/oracles` tries.

use serde_json::json;

use super::*;

fn filled(template: &Value, parameters: &Value) -> Result<Value, TemplateError> {
    substitute(template, parameters).map(Option::unwrap)
}

#[test]
fn a_value_is_never_read_as_a_template_or_a_pattern() {
    let parameters = json!({"a": "{{b}}", "b": "secret", "c": "$& $1 $$"});
    assert_eq!(filled(&json!("x {{a}} {{c}} {{b}}"), &parameters), Ok(json!("x {{b}} $& $1 $$ secret")));
    assert_eq!(filled(&json!({"{{a}}": "{{a}}"}), &parameters), Ok(json!({"{{b}}": "{{b}}"})));
}

#[test]
fn what_is_no_text_stands_alone_or_not_at_all() {
    let parameters = json!({"o": {"k": 1}, "l": [1], "x": "k"});
    assert_eq!(filled(&json!(["{{o}}", "{{l}}"]), &parameters), Ok(json!([{"k": 1}, [1]])));
    for template in [json!("a{{o}}"), json!("{{l}}b"), json!({"{{o}}": 1})] {
        assert!(matches!(filled(&template, &parameters), Err(TemplateError::NotText(_))), "{template}");
    }
    assert_eq!(filled(&json!({"{{gone}}": 1}), &parameters), Err(TemplateError::NoKey("{{gone}}".into())));
    assert_eq!(filled(&json!({"{{x}}": 1, "k": 2}), &parameters), Err(TemplateError::TwoKeys("k".into())));
    assert_eq!(substitute(&json!("{{gone}}"), &parameters), Ok(None));
}

#[test]
fn what_is_made_has_bounds() {
    let mut deep = json!("x");
    for _ in 0..=MAX_DEPTH {
        deep = json!([deep]);
    }
    assert_eq!(substitute(&deep, &json!({})), Err(TemplateError::TooDeep));
    assert_eq!(substitute(&json!("{{deep}}"), &json!({"deep": deep})), Err(TemplateError::TooDeep));
    let long = "x".repeat(MAX_BYTES / 4);
    let many = vec!["{{long}}"; 5];
    assert_eq!(substitute(&json!(many), &json!({"long": long})), Err(TemplateError::TooLarge));
    assert_eq!(substitute(&json!(many.concat()), &json!({"long": long})), Err(TemplateError::TooLarge));
    let wide = vec![json!(null); MAX_VALUES / 2];
    assert_eq!(substitute(&json!(["{{wide}}", "{{wide}}"]), &json!({"wide": wide})), Err(TemplateError::TooLarge));
}

#[test]
fn a_null_survives_composition() {
    let both =
        compose(json!({"a": {"b": 1, "c": 2}, "d": 3}), json!({"a": {"b": null, "e": {"f": null}}, "d": {"g": 4}}));
    assert_eq!(both, json!({"a": {"b": null, "c": 2, "e": {"f": null}}, "d": {"g": 4}}));
    assert_eq!(compose(json!({"a": 1}), json!(null)), json!(null));
}

/// RFC 7396, section 2.
fn patched(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            let before = target.remove(key).unwrap_or(Value::Null);
            target.insert(key.clone(), patched(before, value));
        }
    }
    Value::Object(target)
}

#[test]
fn a_composed_patch_does_what_both_do_in_turn() {
    let target = json!({"a": {"b": 0, "c": 1}, "x": [1], "keep": true});
    let patches =
        [json!({}), json!({"a": {"b": null}}), json!({"a": {"b": 2, "n": 3}}), json!({"x": null}), json!({"x": [2]})];
    for first in &patches {
        for second in &patches {
            let in_turn = patched(patched(target.clone(), first), second);
            assert_eq!(patched(target.clone(), &compose(first.clone(), second.clone())), in_turn, "{first} {second}");
        }
    }
}

#[test]
fn braces_that_never_close_take_no_more_time_than_others() {
    let begun = std::time::Instant::now();
    for hostile in ["{{a:", "{{", "{{ a", "{{a:b} "] {
        let text = hostile.repeat(MAX_BYTES / 2 / hostile.len()) + "}x}}";
        assert_eq!(substitute(&json!(text), &json!({})), Ok(Some(json!(text))));
    }
    // In time that grows with the square of the length it would be hours; a busy machine needs a second.
    assert!(begun.elapsed() < latchkey_test_support::PATIENCE);
}
