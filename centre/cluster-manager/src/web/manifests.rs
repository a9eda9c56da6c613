//! What a bootstrap script applies, as documents: for a node that runs no shell text from the network.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::manager::{BootstrapManifests, ManifestFile, ManifestsRequest};
use latchkey_factory_plus_server::http::StatusCode;
use latchkey_factory_plus_server::{Answer, Refusal, Request, Response};
use serde_json::json;

use super::{BOOTSTRAP, Web, link_refusal, no_cluster};
use crate::links::{LIFETIME_MS, LinkError, Token};
use crate::manifests::documents;
use crate::script::manifest_files;

/// Whose a namespace is: what a bootstrap script writes, and heeds.
const MARK: &str = "latchkey.dev/edge-cluster";

impl Web {
    /// Makes a link as for a script, and answers with the files that the script would apply, the namespace before them.
    pub(super) async fn manifests(&self, cluster: Uuid, mut request: Request) -> Answer {
        let permit = self.permit(cluster, &request).await?;
        let asked: ManifestsRequest = request.json().await?;
        let made = self.make(permit, LIFETIME_MS, asked.replaces_own, &request).await?;
        let token = made.url.strip_prefix(&format!("{}{BOOTSTRAP}", self.0.url));
        let token = token.and_then(|token| Token::read(token).ok());
        let token = token.ok_or_else(|| Refusal::internal("a link has no token"))?;
        let known = self.0.manager.known(cluster).ok_or_else(no_cluster)?;
        let status = known.status.filter(|status| status.ready).ok_or_else(|| link_refusal(LinkError::NotReady))?;
        let (entry, added) = self.inputs(&status).await?;
        let values = self.values(cluster, &status)?;
        let namespace = values.namespace.to_owned();
        let refused = |error: &dyn std::fmt::Display| Refusal::conflict(format!("There are no manifests: {error}"));
        let own = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "annotations": {MARK: cluster}}}),
        ];
        let own = documents(&own).map_err(|error| refused(&error))?;
        let files = manifest_files(&entry, &values, &added, &token).map_err(|error| refused(&error))?;
        let files = std::iter::once(("namespace.yaml".to_owned(), own)).chain(files);
        let files = files.map(|(name, text)| ManifestFile { name, text }).collect();
        let token = token.text().to_string();
        let answer = BootstrapManifests { link: made.id, token, expires: made.expires, namespace, files };
        Ok(Response::json(&answer)?.status(StatusCode::CREATED))
    }
}
