//! What the API server says has come of an object.

use serde::Deserialize;

/// `status.conditions` (Kubernetes API conventions, "Typical status properties"); none where the object has none yet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Conditions(Vec<Condition>);

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
}

impl Conditions {
    /// Whether this one is there, and true.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.0.iter().any(|one| one.kind == kind && one.status == "True")
    }

    /// The message of the first of these that is there.
    pub(crate) fn message_of(&self, kinds: &[&str]) -> Option<&str> {
        self.0.iter().find(|one| kinds.contains(&&*one.kind)).map(|one| &*one.message)
    }
}
