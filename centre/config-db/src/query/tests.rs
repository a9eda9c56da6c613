//! Searches as the contract says.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn matches(query: &str, value: &Value) -> bool {
    Query::parse(query).unwrap().matches(value)
}

#[test]
fn conditions_compare_scalars_at_paths() {
    let value =
        json!({"path": "shared/helm", "n": 1, "yes": true, "nothing": null, "deep": {"list": [{"a": 1}, {"a": 2}]}});
    for (query, expected) in [
        ("", true),
        ("path=%22shared%2Fhelm%22", true),
        ("path=\"other\"", false),
        ("n=1&yes=true", true),
        ("n=1.0", true),
        ("n=2&yes=true", false),
        ("nothing=null", true),
        ("missing=null", false),
        ("missing=undefined", true),
        ("nothing=undefined", false),
        ("deep.list.a=2", true),
        ("deep.list.a=3", false),
        ("deep.list.b=undefined", true),
        ("n=\"1\"", false),
    ] {
        assert_eq!(matches(query, &value), expected, "{query}");
    }
    assert!(matches("a=1", &json!({"a": [2, 1]})) && !matches("a=1", &json!(7)));
}

#[test]
fn projections_leave_out_what_is_null_or_missing() {
    let query = Query::parse("@name=spec.name&@none=nothing&@gone=x.y").unwrap();
    assert!(query.projects() && !Query::parse("a=1").unwrap().projects());
    let found = query.project_value(&json!({"spec": {"name": "N"}, "nothing": null}));
    assert_eq!(Value::Object(found), json!({"name": "N"}));
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let refused = |query: &str| Query::parse(query).unwrap_err();
    assert_eq!(refused("a"), QueryError::Term("a".into()));
    assert_eq!(refused("a=%2"), QueryError::Term("%2".into()));
    assert_eq!(refused("a=%ff"), QueryError::Term("%ff".into()));
    assert_eq!(refused("a..b=1"), QueryError::Path("a..b".into()));
    assert_eq!(refused("a[0]=1"), QueryError::Path("a[0]".into()));
    assert_eq!(refused("a=b"), QueryError::Scalar("b".into()));
    assert_eq!(refused("a=[1]"), QueryError::Scalar("[1]".into()));
    assert_eq!(refused("@uuid=a"), QueryError::Name("uuid".into()));
    assert_eq!(refused("@x=a&@x=b"), QueryError::Name("x".into()));
    assert_eq!(refused(&"a=1&".repeat(33)), QueryError::TooLong);
    assert_eq!(refused(&format!("a=\"{}\"", "x".repeat(8192))), QueryError::TooLong);
}

proptest! {
    #[test]
    fn no_query_string_is_a_panic(query: String, value: String) {
        if let Ok(query) = Query::parse(&query) {
            query.matches(&json!(value));
        }
    }
}
