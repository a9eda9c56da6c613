//! What is written on the resources themselves.

use std::sync::Arc;

use latchkey_factory_plus::Realm;
use latchkey_kubernetes_client::kube::api::{Api, DynamicObject, Patch, PatchParams};
use latchkey_kubernetes_client::{ApiCode, ApiError, Connection};
use serde_json::{Map, Value, json};

use super::resource::Resource;
use super::rivals::Id;
use crate::failure::Failure;

/// Which writing of a resource was read, and its finalizers in that.
#[derive(Debug)]
pub(crate) struct Writing {
    version: String,
    finalizers: Vec<String>,
}

impl Writing {
    fn of(object: &DynamicObject) -> Self {
        let metadata = &object.metadata;
        Self {
            version: metadata.resource_version.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
        }
    }
}

/// The resources of a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    connection: Arc<Connection>,
    namespace: Arc<str>,
    realm: Realm,
}

impl Objects {
    pub(crate) fn of(connection: Arc<Connection>, namespace: &str, realm: &Realm) -> Self {
        Self { connection, namespace: namespace.into(), realm: realm.clone() }
    }

    fn api(&self, id: &Id) -> Api<DynamicObject> {
        id.0.api(&self.connection, &self.namespace)
    }

    /// One of them as it stands now, which a watch tells a moment later, and which writing of it that is; none if it is gone.
    pub(crate) async fn read(&self, id: &Id) -> Result<Option<(Resource, Writing)>, ApiError> {
        Ok(self.found(id).await?.map(|object| {
            let writing = Writing::of(&object);
            (id.0.read(object, &self.realm), writing)
        }))
    }

    async fn found(&self, id: &Id) -> Result<Option<DynamicObject>, ApiError> {
        let (api, name) = (self.api(id), id.1.clone());
        self.connection.run(&about(id), async move { api.get_opt(&name).await }).await
    }

    /// Puts a finalizer on; `read` is how the resource was found a moment ago.
    pub(crate) async fn hold(&self, id: &Id, finalizer: &str, read: Option<Writing>) -> Result<(), Failure> {
        let put = |finalizers: &mut Vec<String>| {
            if !finalizers.iter().any(|one| one == finalizer) {
                finalizers.push(finalizer.to_owned());
            }
        };
        match read {
            Some(read) => match self.finalizers(id, read, put).await {
                Err(error) if error.code == ApiCode::Conflict => self.finalizers_now(id, put).await,
                done => Ok(done?),
            },
            None => self.finalizers_now(id, put).await,
        }
    }

    /// Takes it off.
    pub(crate) async fn release(&self, id: &Id, finalizer: &str) -> Result<(), Failure> {
        self.finalizers_now(id, |finalizers| finalizers.retain(|one| one != finalizer)).await
    }

    async fn finalizers_now(&self, id: &Id, change: impl Fn(&mut Vec<String>)) -> Result<(), Failure> {
        let Some(found) = self.found(id).await? else { return Ok(()) };
        Ok(self.finalizers(id, Writing::of(&found), change).await?)
    }

    /// Others have finalizers, too: decided on what was read.
    async fn finalizers(&self, id: &Id, read: Writing, change: impl Fn(&mut Vec<String>)) -> Result<(), ApiError> {
        let mut finalizers = read.finalizers.clone();
        change(&mut finalizers);
        if finalizers == read.finalizers {
            return Ok(());
        }
        let version = read.version;
        self.patch(id, json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } })).await
    }

    /// Sets annotations and labels; those without a value go.
    pub(crate) async fn mark(
        &self,
        id: &Id,
        annotations: &[(&str, Option<&str>)],
        labels: &[(&str, Option<&str>)],
    ) -> Result<(), Failure> {
        let of = |marks: &[(&str, Option<&str>)]| {
            marks.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<String, Value>>()
        };
        Ok(self.patch(id, json!({ "metadata": { "annotations": of(annotations), "labels": of(labels) } })).await?)
    }

    async fn patch(&self, id: &Id, body: Value) -> Result<(), ApiError> {
        let (api, name) = (self.api(id), id.1.clone());
        let patching = async move { api.patch(&name, &PatchParams::default(), &Patch::Merge(body)).await };
        here(self.connection.run(&about(id), patching).await.map(drop))
    }

    /// Says how it stands.
    pub(crate) async fn status(&self, id: &Id, generation: i64, phase: &str, message: &str) -> Result<(), ApiError> {
        let (api, name) = (self.api(id), id.1.clone());
        let status = json!({ "status": { "observedGeneration": generation, "phase": phase, "message": message } });
        let patching = async move { api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await };
        here(self.connection.run(&about(id), patching).await.map(drop))
    }
}

/// A resource that is gone needs nothing.
fn here(done: Result<(), ApiError>) -> Result<(), ApiError> {
    done.or_else(|error| if error.code == ApiCode::ResourceUnknown { Ok(()) } else { Err(error) })
}

fn about(id: &Id) -> String {
    format!("{}/{}", id.0.plural(), id.1)
}
