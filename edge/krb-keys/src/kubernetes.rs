//! Secrets of the cluster's namespace.

use std::sync::Arc;

use latchkey_kubernetes_client::k8s_openapi::api::core::v1::Secret;
use latchkey_kubernetes_client::kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use latchkey_kubernetes_client::{ApiCode, ApiError, Connection};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::secret::{Data, MANAGED_BY, Stored, Written, base64};

/// The Secrets of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    connection: Arc<Connection>,
    namespace: Arc<str>,
}

impl Secrets {
    /// Of a namespace.
    pub(crate) fn of(connection: Arc<Connection>, namespace: &str) -> Self {
        Self { connection, namespace: namespace.into() }
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.connection.client(), &self.namespace)
    }

    fn about(&self, name: &str) -> String {
        format!("secrets/{name} of the namespace {}", self.namespace)
    }

    /// One of them, if it is there.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Stored>, ApiError> {
        let (api, called) = (self.api(), name.to_owned());
        let found = self.connection.run(&self.about(name), async move { api.get_opt(&called).await }).await?;
        Ok(found.map(stored))
    }

    /// Makes it, or changes exactly the one that was read: keys that `data` lacks go. Labels, annotations and type stay.
    pub(crate) async fn write(&self, name: &str, before: Option<&Stored>, data: &Data) -> Result<Written, ApiError> {
        let (api, called) = (self.api(), name.to_owned());
        let body = body(name, before, data);
        let update = before.is_some();
        let writing = async move {
            if update {
                api.patch(&called, &PatchParams::default(), &Patch::Merge(body)).await
            } else {
                // It was made above, as JSON of a Secret.
                let secret =
                    serde_json::from_value(body).map_err(latchkey_kubernetes_client::kube::Error::SerdeError)?;
                api.create(&PostParams::default(), &secret).await
            }
        };
        match self.connection.run(&self.about(name), writing).await {
            Ok(_) => Ok(Written::Done),
            // Made, changed or deleted meanwhile.
            Err(error) if error.code == ApiCode::Conflict => Ok(Written::Changed),
            Err(error) if update && error.code == ApiCode::ResourceUnknown => Ok(Written::Changed),
            Err(error) => Err(error),
        }
    }
}

impl Secrets {
    /// Deletes exactly the one that was read.
    pub(crate) async fn delete(&self, name: &str, before: &Stored) -> Result<(), ApiError> {
        let (api, called) = (self.api(), name.to_owned());
        let preconditions = Preconditions { resource_version: Some(before.version.clone()), uid: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleting = async move { api.delete(&called, &parameters).await.map(drop) };
        match self.connection.run(&self.about(name), deleting).await {
            Err(error) if error.code == ApiCode::ResourceUnknown => Ok(()),
            done => done,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        use ApiCode as Code;
        let text = error.to_string();
        match error.code {
            Code::KubeconfigUnusable | Code::NotAuthenticated | Code::Forbidden | Code::Invalid => Self::Refused(text),
            _ => Self::Again(text),
        }
    }
}

fn stored(secret: Secret) -> Stored {
    let labels = secret.metadata.labels.unwrap_or_default();
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, Zeroizing::new(value.0))).collect();
    Stored {
        data,
        ours: labels.get(MANAGED_BY.0).is_some_and(|value| value == MANAGED_BY.1),
        version: secret.metadata.resource_version.unwrap_or_default(),
    }
}

/// A new Secret, or what changes of the one that was read.
fn body(name: &str, before: Option<&Stored>, data: &Data) -> Value {
    let mut written: Map<String, Value> =
        data.iter().map(|(key, value)| (key.to_owned(), Value::from(base64(value).as_str()))).collect();
    let gone = before.iter().flat_map(|before| before.data.iter()).filter(|(key, _)| data.get(key).is_none());
    written.extend(gone.map(|(key, _)| (key.to_owned(), Value::Null)));
    let labels = json!({ (MANAGED_BY.0): MANAGED_BY.1 });
    match before {
        Some(before) => json!({ "metadata": { "resourceVersion": before.version, "labels": labels }, "data": written }),
        None => json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": name, "labels": labels }, "data": written,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_goes_and_what_it_was_decided_on() {
        let value = |text: &str| Zeroizing::new(text.as_bytes().to_vec());
        let old = Data::default().with("client", value("k")).with("password", value("p"));
        let before = Stored { data: old.clone(), ours: true, version: "7".into() };
        let change = body("s", Some(&before), &old.without("client").with("password", value("q")));
        assert_eq!(change["data"], json!({ "client": null, "password": "cQ==" }));
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        let new = body("s", None, &Data::default().with("a", value("")));
        assert_eq!(
            (&new["data"], &new["type"], &new["metadata"]["name"]),
            (&json!({ "a": "" }), &json!("Opaque"), &json!("s"))
        );
        let read = stored(serde_json::from_value(new).unwrap());
        assert!(read.ours && read.data == Data::default().with("a", value("")));
        let theirs = json!({ "metadata": { "labels": { (MANAGED_BY.0): "Helm" } } });
        assert!(!stored(serde_json::from_value(theirs).unwrap()).ours);
    }
}
