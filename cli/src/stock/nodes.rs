//! What kubectl does with nodes and what runs there.

use std::time::Duration;

use serde::Serialize;

use super::call::Call;
use super::kubectl::{ALLOWED, MANY_OBJECTS, words};
use super::{Kubectl, Scope, StockCode, StockError};

/// The name of what was changed.
const NAME: usize = 64 * 1024;

impl Kubectl {
    /// Has the pods of a node go elsewhere, and none come; those of daemons stay, and what pods keep on the node alone is lost.
    /// Where nobody is there who could end them, those whose time is over are not waited for.
    pub(crate) async fn drain(&self, node: &str, is_there: bool, allowed: Duration) -> Result<(), StockError> {
        let timeout = format!("--timeout={}s", allowed.as_secs());
        let mut flags = vec!["drain", "--ignore-daemonsets", "--delete-emptydir-data", "--force", &timeout];
        if !is_there {
            flags.push("--skip-wait-for-delete-timeout=1");
        }
        let call = self.call(words(flags, Scope::Cluster, [node]), &[], MANY_OBJECTS);
        self.run(Call { allowed: allowed + ALLOWED, ..call }).await.map(drop)
    }

    /// Changes fields of an object at once (a JSON merge patch); one that names a `resourceVersion` changes that one alone.
    pub(crate) async fn change(
        &self,
        resource: &str,
        scope: Scope<'_>,
        name: &str,
        patch: &impl Serialize,
    ) -> Result<(), StockError> {
        let patch = serde_json::to_string(patch).map_err(|error| StockError::Malformed {
            call: format!("kubectl patch {resource} {name}"),
            reason: error.to_string(),
        })?;
        let patch = format!("--patch={patch}");
        let words = words(["patch", "--type=merge", "--output=name", &patch], scope, [resource, name]);
        self.run(self.call(words, &[], NAME)).await.map(drop)
    }

    /// Objects by a label, `name=value`.
    pub(crate) async fn labelled<T: serde::de::DeserializeOwned>(
        &self,
        resource: &str,
        scope: Scope<'_>,
        label: &str,
    ) -> Result<Vec<T>, StockError> {
        let selector = format!("--selector={label}");
        let arguments = words(["get", "--output=json", &selector], scope, [resource]);
        self.listed(self.call(arguments, &[], MANY_OBJECTS)).await
    }
}

impl StockError {
    /// Whether it may be gone the next time: nobody answers, or not as he should. So it is while an API server starts; until it has
    /// read who has which rights, it forbids everything.
    pub(crate) fn is_passing(&self) -> bool {
        !matches!(self.code(), StockCode::Interrupted | StockCode::KnowsUsNot | StockCode::Untrusted)
    }
}
