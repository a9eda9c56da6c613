//! Secrets that one cluster alone can read, sealed here, kept in its repository.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::permission;
use latchkey_factory_plus_server::http::StatusCode;
use latchkey_factory_plus_server::{Answer, Refusal, Request, Response};
use zeroize::Zeroizing;

use super::{Web, no_cluster};
use crate::keeper::now_ms;
use crate::links::LinkError;
use crate::manager::Known;
use crate::seal::{MAX_MANIFEST, Place, SealError, Sealed, SealedSecret, SealingKey, seal};
use crate::world::COMMITTER;
use latchkey_git_client::{Change, Commit, Exchange, GitError};

/// Why a repository's secrets are not changed.
enum Failure {
    Git(GitError),
    Seal(SealError),
    /// There is no such key.
    None,
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Git(error) => Self::unavailable(format!("the cluster's repository: {error}")),
            Failure::Seal(error) => seal_refusal(&error),
            Failure::None => Self::not_found("The secret has no such key"),
        }
    }
}

fn seal_refusal(error: &SealError) -> Refusal {
    match error {
        // The original's clients know 503 as: the edge has not said what to seal for.
        SealError::Certificate(_) | SealError::Validity { .. } => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        SealError::TooLarge => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        SealError::Manifest { .. } => Refusal::conflict(error.to_string()),
        SealError::Library => Refusal::internal(error.to_string()),
    }
}

impl Web {
    /// Seals the body. With `?dryrun` everything is checked, and nothing is written.
    pub(super) async fn seal(&self, cluster: Uuid, parts: [&str; 3], mut request: Request) -> Answer {
        let (place, known) = self.place(cluster, parts, &request).await?;
        let dry = request.query_pairs()?.iter().any(|(name, _)| name == "dryrun");
        let certificate = known.edge.as_ref().and_then(|edge| edge.kubeseal_cert.as_deref());
        let certificate = certificate.ok_or_else(|| {
            let what = "The edge has not said yet what to seal for: see sealed-secrets and Edge Sync there";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what)
        })?;
        let key = SealingKey::of(certificate, now_ms() / 1000).map_err(|error| seal_refusal(&error))?;
        let secret = Zeroizing::new(request.body().read_all().await?.to_vec());
        let sealed = seal(&key, &place, &secret).map_err(|error| seal_refusal(&error))?;
        if !dry {
            self.edit(cluster, &place, Some(&sealed)).await?;
            say(cluster, &place, &request, "A secret was sealed")?;
        }
        Ok(Response::empty(StatusCode::NO_CONTENT))
    }

    /// Takes a key out of a secret.
    pub(super) async fn unseal(&self, cluster: Uuid, parts: [&str; 3], request: &Request) -> Answer {
        let (place, _) = self.place(cluster, parts, request).await?;
        self.edit(cluster, &place, None).await?;
        say(cluster, &place, request, "A secret was deleted")?;
        Ok(Response::empty(StatusCode::NO_CONTENT))
    }

    /// Which key of which secret, for somebody who may, of a cluster that is set up and has reported.
    async fn place(
        &self,
        cluster: Uuid,
        [namespace, name, key]: [&str; 3],
        request: &Request,
    ) -> Result<(Place, Known), Refusal> {
        self.rights(request).await?.require(permission::MANAGE_SECRETS, cluster)?;
        let place = Place::new(namespace, name, key).map_err(|error| Refusal::unprocessable(error.to_string()))?;
        let known = self.0.manager.known(cluster).ok_or_else(no_cluster)?;
        if known.edge.is_none() {
            return Err(Refusal::not_found("The cluster was not bootstrapped yet: nothing there could open a secret"));
        }
        if !known.status.as_ref().is_some_and(|status| status.ready) {
            return Err(Refusal::conflict(LinkError::NotReady.to_string()));
        }
        Ok((place, known))
    }

    async fn edit(&self, cluster: Uuid, place: &Place, sealed: Option<&Sealed>) -> Result<(), Failure> {
        let edit = async |exchange: &Exchange| -> Result<(Option<Commit>, ()), Failure> {
            let path = place.path();
            let there = exchange.file(&path, MAX_MANIFEST).await?;
            let mut secret = match &there {
                Some(text) => SealedSecret::read(place, &String::from_utf8_lossy(text))?,
                None => SealedSecret::new(place),
            };
            match sealed {
                Some(sealed) => secret.insert(sealed)?,
                None if !secret.remove() => return Err(Failure::None),
                None => {}
            }
            let change = match secret.write()? {
                Some(text) => Change::Write(path, text.into_bytes()),
                None => Change::Delete(path),
            };
            let message = format!("Change the secret {}/{}", place.namespace(), place.name());
            Ok((Some(Commit { message, changes: vec![change], committer: COMMITTER }), ()))
        };
        self.0.manager.centre().git.commit(cluster, edit).await
    }
}

fn say(cluster: Uuid, place: &Place, request: &Request, what: &str) -> Result<(), Refusal> {
    let by = request.caller().known()?.upn().as_str();
    let (namespace, name, key) = (place.namespace(), place.name(), place.key());
    tracing::info!(%cluster, namespace, name, key, by, from = %request.peer(), "{what}");
    Ok(())
}
