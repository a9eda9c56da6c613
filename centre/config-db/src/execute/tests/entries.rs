//! What is done to entries.

use super::*;

#[test]
fn an_entrys_etag_changes_with_its_value_alone() {
    let mut rig = Rig::new();
    assert_eq!(rig.put(APP, X, &json!({"b": 1, "a": 2})), 201);
    let first = rig.entry(APP, X).etag;
    assert_eq!(rig.put(APP, X, &json!({"a": 2, "b": 1})), 204);
    assert_eq!(rig.entry(APP, X).etag, first);
    assert_eq!(rig.put(APP, X, &json!({"a": 2, "b": 2})), 204);
    assert_ne!(rig.entry(APP, X).etag, first);
    assert_eq!(rig.put(NOBODY, X, &json!(1)), 404);
    assert_eq!(rig.put(CLASS, X, &json!(1)), 404, "no application");
    assert_eq!(rig.put(APP, NOBODY, &json!(1)), 404);
    for falsy in [json!(null), json!(0), json!(false), json!("")] {
        assert_eq!(rig.put(APP, X, &falsy), 204);
        assert_eq!(rig.entry(APP, X).json.value(), falsy);
    }
    assert_eq!(rig.status(delete(APP, X)), 204);
    assert_eq!(rig.status(delete(APP, X)), 404);
}

/// Upstream #400: a patch once destroyed what was there.
#[test]
fn a_patch_creates_merges_and_never_destroys() {
    let mut rig = Rig::new();
    assert_eq!(rig.status(patch(APP, X, &json!({"a": {"b": 1, "gone": null}}))), 204, "it creates, and says 204");
    assert_eq!(rig.entry(APP, X).json.value(), json!({"a": {"b": 1}}));
    assert_eq!(rig.status(patch(APP, X, &json!({"a": {"c": 2}, "d": [1]}))), 204);
    assert_eq!(rig.entry(APP, X).json.value(), json!({"a": {"b": 1, "c": 2}, "d": [1]}));
    let etag = rig.entry(APP, X).etag;
    assert_eq!(rig.status(patch(APP, X, &json!({"d": [1], "nothing": null}))), 204);
    assert_eq!(rig.entry(APP, X).etag, etag);
    for no_object in [json!(null), json!([1]), json!("x"), json!(7)] {
        assert_eq!(rig.status(patch(APP, X, &no_object)), 422);
        assert_eq!(rig.status(patch(APP, Y, &no_object)), 422);
        assert_eq!(rig.entry(APP, X).etag, etag);
        rig.put(INFO, X, &no_object);
        assert_eq!(rig.status(patch(INFO, X, &json!({"a": 1}))), 409, "{no_object} is no object");
        assert_eq!(rig.entry(INFO, X).json.value(), no_object);
    }
    assert_eq!(rig.status(patch(APP, NOBODY, &json!({}))), 404);
}

#[test]
fn preconditions_guard_each_write() {
    let mut rig = Rig::new();
    let create_only = || Preconditions::parse(None, Some("*")).unwrap();
    let put_with = |value: i32, conditions| Write::Put(APP, X, Json::of(&json!(value)), conditions);
    assert_eq!(rig.status(put_with(1, create_only())), 201);
    assert_eq!(rig.status(put_with(1, create_only())), 412, "though it would change nothing");
    let current = format!("\"{}\"", rig.entry(APP, X).etag);
    let if_match = |tag: &str| Preconditions::parse(Some(tag), None).unwrap();
    assert_eq!(rig.status(put_with(2, if_match(&current))), 204);
    assert_eq!(rig.status(put_with(3, if_match(&current))), 412);
    assert_eq!(rig.status(Write::Patch(APP, X, Json::of(&json!({})), if_match("\"x\""))), 412);
    assert_eq!(rig.status(Write::Delete(APP, X, if_match(&current))), 412);
    assert_eq!(rig.status(Write::Delete(APP, X, if_match("*"))), 204);
    assert_eq!(rig.status(put_with(4, if_match("*"))), 412);
}

#[test]
fn a_schema_governs_its_application() {
    let mut rig = Rig::new();
    let schema = json!({"type": "object", "required": ["name"], "properties": {"name": {"pattern": "^[a-z]+$"}}});
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!({"type": "no type"})), 422);
    rig.put(APP, Y, &json!(1));
    let refused = rig.root(put(CONFIG_SCHEMA, APP, &schema)).unwrap_err();
    assert!(refused.status() == 409 && refused.to_string().contains(&Y.to_string()), "{refused}");
    assert_eq!(rig.status(delete(APP, Y)), 204);
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &schema), 201);
    let refused = rig.root(put(APP, X, &json!({"name": "N"}))).unwrap_err();
    assert!(refused.status() == 422 && refused.to_string().contains("/name"), "{refused}");
    assert_eq!(rig.put(APP, X, &json!({"name": "n"})), 201);
    assert_eq!(rig.status(patch(APP, X, &json!({"name": null}))), 422);
    assert_eq!(rig.status(patch(APP, Y, &json!({"other": 1}))), 422, "a patch that creates is checked, too");
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!(true)), 204, "a new revision");
    assert_eq!(rig.put(APP, X, &json!(5)), 204, "is the one that counts");
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!(false)), 409);
    assert_eq!(rig.status(delete(CONFIG_SCHEMA, APP)), 204);
    assert_eq!(rig.put(CONFIG_SCHEMA, REGISTRATION, &json!(false)), 409);
}
