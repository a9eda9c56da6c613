//! Sealed secrets that the controller cannot open: those that were sealed for a key which this cluster does not have (any more), for one.
//!
//! The controller says so in each one's status, and people are told at the centre, where they can seal it anew.

use latchkey_kubernetes_client::Key;
use latchkey_kubernetes_client::kube::api::ObjectMeta;
use serde::Deserialize;

use crate::kinds::read_only;

/// A sealed secret, of which only the controller's word is read.
#[derive(Clone, Debug, Deserialize)]
pub struct SealedSecret {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// What the controller says of it.
    #[serde(default)]
    pub status: Option<State>,
}

read_only!(SealedSecret, NamespaceResourceScope, "bitnami.com", "v1alpha1", "SealedSecret", "sealedsecrets");

/// What the controller says of a sealed secret.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct State {
    /// How it stands with it.
    #[serde(default)]
    pub conditions: Option<Vec<Condition>>,
}

/// One thing of how it stands with a sealed secret.
#[derive(Clone, Debug, Deserialize)]
pub struct Condition {
    /// Of what.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    #[serde(default)]
    pub message: Option<String>,
}

/// The most that are looked at.
pub const MOST: usize = 10_000;
/// The most that are named; of the rest the number is told.
const NAMED: usize = 20;
/// The longest reason that is told, in characters.
const LONGEST: usize = 200;

/// Why the Secret is not there or not as it was sealed, as the controller says; `None` where it is, or the controller has not looked yet.
pub fn closed(secret: &SealedSecret) -> Option<String> {
    let conditions = secret.status.as_ref()?.conditions.as_ref()?;
    let synced = conditions.iter().find(|condition| condition.kind == "Synced")?;
    let why = || synced.message.as_deref().unwrap_or_default().chars().take(LONGEST).collect();
    (synced.status == "False").then(why)
}

/// What is told of those that are not opened, in sentences.
pub fn sentences<'a>(closed: impl ExactSizeIterator<Item = (&'a Key, &'a String)>) -> Vec<String> {
    let more = closed.len().saturating_sub(NAMED);
    let named = closed.take(NAMED).map(|(Key { namespace, name }, why)| {
        format!("the sealed secret {namespace}/{name} is not opened ({why}): seal each of its keys anew")
    });
    let more = (more > 0).then(|| format!("{more} more sealed secrets are not opened"));
    named.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(status: &Value) -> SealedSecret {
        serde_json::from_value(json!({"metadata": {"name": "plc", "namespace": "fplus-edge"}, "status": status}))
            .unwrap()
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"conditions": [
            {"type": kind, "status": status, "message": "no key could decrypt secret (password)", "lastUpdateTime": null},
        ]})
    }

    #[test]
    fn what_the_controller_could_not_open_is_closed_and_nothing_else_is() {
        assert_eq!(closed(&secret(&condition("Synced", "False"))).unwrap(), "no key could decrypt secret (password)");
        for other in [
            condition("Synced", "True"),
            condition("Synced", "Unknown"),
            condition("Other", "False"),
            json!(null),
            json!({}),
            json!({"conditions": null}),
        ] {
            assert_eq!(closed(&secret(&other)), None, "{other}");
        }
        let long = json!({"conditions": [{"type": "Synced", "status": "False", "message": "é".repeat(9000)}]});
        assert_eq!(closed(&secret(&long)).unwrap().chars().count(), LONGEST);
    }

    #[test]
    fn many_are_counted_and_not_named() {
        let all: Vec<(Key, String)> = (0..NAMED + 3)
            .map(|number| (Key { namespace: "ns".into(), name: format!("n{number}") }, "lost".to_owned()))
            .collect();
        let told = |count: usize| sentences(all[..count].iter().map(|(key, why)| (key, why)));
        assert_eq!(told(0), [""; 0]);
        assert_eq!(told(1), ["the sealed secret ns/n0 is not opened (lost): seal each of its keys anew"]);
        assert_eq!(told(NAMED).len(), NAMED);
        assert_eq!(told(NAMED + 3)[NAMED..], ["3 more sealed secrets are not opened"]);
    }
}
