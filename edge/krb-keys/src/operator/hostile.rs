//! Objects as somebody hostile writes them: each is read or refused in few words, and what is read is of this realm.

use std::collections::BTreeMap;

use latchkey_factory_plus::Realm;
use latchkey_kubernetes_client::kube::api::DynamicObject;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::decide::{Decision, Facts, decide};
use super::resource::{FINALIZER, FORCE_REKEY, HAS_OLD_KEYS, REKEYED_AT, SUSPEND};
use super::watch::Type;

/// Characters that a status says of what is wrong with a specification, at most: forty of what was written, each as an escape of ten,
/// and the sentence around them.
const MOST_SAID: usize = 600;

const FIELDS: [&str; 14] = [
    "type",
    "principal",
    "additionalPrincipals",
    "keepOldKeys",
    "secret",
    "sealWith",
    "cluster",
    "account",
    "key",
    "format",
    "uuid",
    "groups",
    "sparkplug",
    "node",
];

/// A string that means something somewhere, or any.
fn text() -> impl Strategy<Value = String> {
    let known = [
        "Random",
        "Password",
        "PresetPassword",
        "Disabled",
        "Trust",
        "nd1/Bolt/a",
        "nd1/Bolt/a@EXAMPLE.ORG",
        "a@OTHER",
        "krbtgt/EXAMPLE.ORG",
        "s/k",
        "../k",
        "a/b/c",
        "true",
        "123",
        "$(id)",
        "\u{1b}[2J\n",
        "00000000-0000-4000-8000-000000000000",
    ];
    prop_oneof![select(known.to_vec()).prop_map(str::to_owned), any::<String>(), "\\PC{300,400}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![vec(inner.clone(), 0..80).prop_map(Value::from), fields(inner).prop_map(Value::from)]
    })
}

fn fields(of: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    btree_map(select(&FIELDS[..]).prop_map(str::to_owned), of, 0..8).prop_map(Map::from_iter)
}

/// Mostly what is needed, with something else in some fields.
fn spec() -> impl Strategy<Value = Value> {
    let whole = [
        json!({"type": "Random", "principal": "nd1/Bolt/a", "secret": "s/k"}),
        json!({"type": "Password", "principal": "op1/Bolt", "secret": "s/k", "account": {"name": "x"}}),
        json!({"type": "Disabled", "principal": "op1/Bolt"}),
        json!({"secret": "s", "key": "k", "format": "Password"}),
    ];
    let changed = (select(whole.to_vec()), fields(value())).prop_map(|(mut whole, other)| {
        whole.as_object_mut().into_iter().for_each(|map| map.extend(other.clone()));
        whole
    });
    prop_oneof![4 => changed, 1 => value()]
}

fn annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(select(&[FORCE_REKEY, SUSPEND, REKEYED_AT, "other"][..]).prop_map(str::to_owned), text(), 0..4)
}

proptest! {
    #[test]
    fn an_object_is_read_or_refused_in_few_words(
        spec in spec(),
        status in value(),
        annotations in annotations(),
        old in any::<bool>(),
        kind in select(&[Type::KerberosKey, Type::LocalSecret][..]),
    ) {
        let realm: Realm = "EXAMPLE.ORG".parse().unwrap();
        let labels = if old { json!({ HAS_OLD_KEYS: text_of(&status) }) } else { json!({}) };
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "uid": "1", "generation": 1, "annotations": annotations, "labels": labels,
                "finalizers": [FINALIZER],
            },
            "spec": spec, "status": status,
        })).unwrap();
        let resource = kind.read(object, &realm);
        prop_assert!(resource.annotations.keys().all(|name| name != "other"));
        match &resource.wanted {
            Ok(wanted) => {
                prop_assert!(wanted.principals.iter().all(|principal| principal.realm() == realm.as_str()));
                if let Some(place) = &wanted.place {
                    let parts = [&place.secret, &place.key];
                    prop_assert!(parts.iter().all(|part| !part.is_empty() && !part.contains(['/', ' ', '\n'])), "{place:?}");
                }
            }
            Err(refused) => {
                let said = refused.to_string();
                prop_assert!(said.chars().count() <= MOST_SAID && !said.contains(char::is_control), "{said:?}");
                let facts = Facts::none(0);
                let refuses = matches!(decide(&resource, &facts), Decision::Refuse(_) | Decision::Leave);
                prop_assert!(refuses, "nothing is done for what is refused");
            }
        }
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
