//! Applies and deletes in the cluster.

use latchkey_kubernetes_client::kube::Api;
use latchkey_kubernetes_client::kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use latchkey_kubernetes_client::{ApiCode, ApiError, Connection, Follower, Objects};
use serde_json::Value;

use crate::deployments::{Have, Kind, MANAGED_BY, MANAGER, MOST, Managed, Name};

/// Follows what was deployed of a kind.
pub(super) fn follow(connection: &Connection, kind: Kind, namespace: &str) -> Follower<Have> {
    let objects = Objects {
        about: kind.plural(),
        api: api(connection, kind, None, namespace),
        labels: format!("{MANAGED_BY}={MANAGER}"),
        fields: String::new(),
        page: 50,
        // More than are made: what is surplus is deleted.
        most: 4 * MOST,
    };
    connection.follow(objects, |object| object.have())
}

/// Applies a manifest; the object since.
pub(super) async fn apply(
    connection: &Connection,
    namespace: &str,
    name: &Name,
    manifest: Value,
) -> Result<Have, ApiError> {
    let about = name.to_string();
    let version =
        manifest["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(_, version)| version);
    let api = api(connection, name.kind, version, namespace);
    let called = name.name.clone();
    let object = connection
        .run(
            &about,
            async move { api.patch(&called, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&manifest)).await },
        )
        .await?;
    object.have().ok_or_else(|| ApiError::new(&about, ApiCode::AnswerUnusable, "an object without uid"))
}

/// Deletes an object, if it still is that of this uid. One that is gone is deleted.
pub(super) async fn delete(connection: &Connection, namespace: &str, name: &Name, uid: &str) -> Result<(), ApiError> {
    let api = api(connection, name.kind, None, namespace);
    let called = name.name.clone();
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let deleted =
        connection.run(&name.to_string(), async move { api.delete(&called, &parameters).await.map(drop) }).await;
    match deleted {
        // Gone, or another one by now, which the watch tells of.
        Err(error) if [ApiCode::ResourceUnknown, ApiCode::Conflict].contains(&error.code) => Ok(()),
        other => other,
    }
}

fn api(connection: &Connection, kind: Kind, version: Option<&str>, namespace: &str) -> Api<Managed> {
    Api::namespaced_with(connection.client(), namespace, &kind.resource(version))
}
