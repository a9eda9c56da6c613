//! The number of the last connection, in a `ConfigMap`.

use latchkey_kubernetes_client::k8s_openapi::api::core::v1::ConfigMap;
use latchkey_kubernetes_client::kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use latchkey_kubernetes_client::{ApiError, Connection, is_absent};
use latchkey_sparkplug::BirthDeath;
use serde_json::json;

use super::{Store, StoreError};

/// The `ConfigMap`, in the monitor's namespace.
const NAME: &str = "edge-monitor";
/// What it is called in errors.
const ABOUT: &str = "configmaps/edge-monitor";
/// The key in it: a number from 0 to 255, in decimal.
const KEY: &str = "bdSeq";

/// The number in the `ConfigMap` `edge-monitor`, key `bdSeq`. It is made where there is none.
#[derive(Debug)]
pub struct ConfigMapStore {
    connection: Connection,
    namespace: String,
}

impl ConfigMapStore {
    /// The one of a namespace.
    pub const fn new(connection: Connection, namespace: String) -> Self {
        Self { connection, namespace }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.connection.client(), &self.namespace)
    }
}

impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> Self {
        Self(error.to_string())
    }
}

impl Store for ConfigMapStore {
    async fn load(&self) -> Result<Option<BirthDeath>, StoreError> {
        let api = self.api();
        let found = self.connection.run(ABOUT, async move { api.get_opt(NAME).await }).await?;
        number(found.as_ref())
    }

    async fn save(&self, number: BirthDeath) -> Result<(), StoreError> {
        let api = self.api();
        let text = number.number().to_string();
        let writing = async move {
            let patch = Patch::Merge(json!({ "data": { (KEY): text } }));
            match api.patch(NAME, &PatchParams::default(), &patch).await {
                Err(error) if is_absent(&error) => {
                    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
                    let data = Some([(KEY.to_owned(), text)].into());
                    let new = ConfigMap { metadata, data, ..ConfigMap::default() };
                    api.create(&PostParams::default(), &new).await.map(drop)
                }
                other => other.map(drop),
            }
        };
        Ok(self.connection.run(ABOUT, writing).await?)
    }
}

/// The number that a `ConfigMap` has.
fn number(found: Option<&ConfigMap>) -> Result<Option<BirthDeath>, StoreError> {
    let Some(text) = found.and_then(|found| found.data.as_ref()).and_then(|data| data.get(KEY)) else {
        return Ok(None);
    };
    if let Ok(number) = text.parse() {
        return Ok(Some(BirthDeath::new(number)));
    }
    let shown: String = text.chars().take(40).collect();
    Err(StoreError(format!("{ABOUT}: {KEY} is {shown:?}, and no number from 0 to 255; delete that key")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_or_refused_by_name() {
        let with = |text: &str| {
            let data = Some([(KEY.to_owned(), text.to_owned())].into());
            number(Some(&ConfigMap { data, ..ConfigMap::default() }))
        };
        assert_eq!(number(None), Ok(None));
        assert_eq!(number(Some(&ConfigMap::default())), Ok(None));
        assert_eq!(with("255"), Ok(Some(BirthDeath::new(255))));
        for bad in ["256", "-1", "", "1.0", &"9".repeat(100_000)] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains("bdSeq") && error.contains("delete") && error.len() < 200, "{error}");
        }
    }
}
