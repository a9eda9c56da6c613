//! Bootstrap links and scripts.

use std::collections::BTreeMap;

use latchkey_factory_plus::uuids::application;
use latchkey_factory_plus::{Uuid, manager};
use latchkey_factory_plus_server::http::{HeaderValue, StatusCode, header};
use latchkey_factory_plus_server::{Answer, Refusal, Request, Response};
use latchkey_git_client::GitError;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{BOOTSTRAP, Web, link_refusal, no_cluster};
use crate::keeper::now_ms;
use crate::links::{LIFETIME_MS, Link, LinkError, NewLink, Permit, Token, UseKind};
use crate::machine::SetupStatus;
use crate::script::{BootstrapCommand, MAX_SCRIPT, Script, Values, assemble};

/// Flux itself, in the repository of charts, where it has that; and what the script calls it.
const FLUX: (&str, &str) = ("flux-system/flux-system.yaml", "flux-system.yaml");
/// What the script calls the manifests that link an edge to its repository.
const SELF_LINK: &str = "self-link.yaml";

impl Web {
    /// The script of a link; nobody is asked who he is.
    pub(super) async fn script(&self, token: &str, request: &Request) -> Answer {
        let from = request.peer().ip().to_string();
        let Ok(token) = Token::read(token) else {
            tracing::warn!(from, "There is no such link");
            return Err(link_refusal(LinkError::Unknown));
        };
        if !self.0.manager.is_ready() {
            return Err(Refusal::unavailable("the clusters' entries were not read yet"));
        }
        let keeper = &self.0.manager.centre().keeper;
        let read = keeper.read(&token, |cluster| self.0.manager.is_set_up(cluster), &from).await;
        let script = read.map_err(|error| Refusal::unavailable(error.to_string()))?.map_err(link_refusal)?;
        let response = Response::text(StatusCode::OK, script.for_reader(&token).text());
        Ok(response.with(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
    }

    /// The URL of a new link, as the original's clients ask for it: 404 where the cluster is not ready.
    pub(super) async fn bootstrap_url(&self, cluster: Uuid, request: Request) -> Answer {
        let permit = self.permit(cluster, &request).await?;
        match self.make(permit, LIFETIME_MS, false, &request).await {
            Ok(made) => Response::json(&made.url),
            Err(refusal) if refusal.status() == StatusCode::CONFLICT && !self.0.manager.is_set_up(cluster) => {
                Err(Refusal::not_found(LinkError::NotReady.to_string()))
            }
            Err(refusal) => Err(refusal),
        }
    }

    pub(super) async fn new_link(&self, cluster: Uuid, mut request: Request) -> Answer {
        let permit = self.permit(cluster, &request).await?;
        let asked: manager::LinkRequest = request.json().await?;
        let lifetime = asked.lifetime_seconds.map_or(LIFETIME_MS, |seconds| u64::from(seconds) * 1000);
        let made = self.make(permit, lifetime, false, &request).await?;
        Ok(Response::json(&made)?.status(StatusCode::CREATED))
    }

    pub(super) async fn links(&self, cluster: Uuid, request: &Request) -> Answer {
        let permit = self.permit(cluster, request).await?;
        let now = now_ms();
        let links = self.0.manager.centre().keeper.of(permit);
        Response::json(&links.iter().map(|link| shown(link, now)).collect::<Vec<_>>())
    }

    pub(super) async fn revoke(&self, cluster: Uuid, link: Uuid, request: &Request) -> Answer {
        let permit = self.permit(cluster, request).await?;
        let by = request.caller().known()?.upn().as_str();
        let revoked = self.0.manager.centre().keeper.revoke(permit, link, by).await;
        revoked.map_err(|error| Refusal::unavailable(error.to_string()))?.map_err(link_refusal)?;
        tracing::info!(%link, %cluster, by, from = %request.peer(), "A link was revoked");
        // It may have been in two hands, which is told until then.
        self.0.manager.links_changed();
        Ok(Response::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn make(
        &self,
        permit: Permit,
        lifetime_ms: u64,
        replaces_own: bool,
        request: &Request,
    ) -> Result<manager::NewLink, Refusal> {
        let (cluster, by) = (permit.cluster(), request.caller().known()?.upn().as_str());
        let known = self.0.manager.known(cluster).ok_or_else(no_cluster)?;
        let status = known.status.filter(|status| status.ready).ok_or_else(|| link_refusal(LinkError::NotReady))?;
        let script = self.assemble(cluster, &status).await?;
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| Refusal::internal("no random numbers"))?;
        let (token, id) = (Token::from_random(random), Uuid::random());
        let keeper = &self.0.manager.centre().keeper;
        let new = NewLink { id, by, lifetime_ms, script: &script, replaces_own };
        // The status as it is now: a cluster that was deleted meanwhile gets no link.
        let now = self.0.manager.known(cluster).and_then(|known| known.status);
        let made = keeper.make(permit, now.as_ref(), &token, new).await;
        let made = made.map_err(|error| Refusal::unavailable(error.to_string()))?.map_err(link_refusal)?;
        tracing::info!(link = %id, %cluster, by, from = %request.peer(), "A link was made");
        if replaces_own {
            // As when one is revoked.
            self.0.manager.links_changed();
        }
        let url = format!("{}{BOOTSTRAP}{}", self.0.url, token.text().as_str());
        let no_command = || Refusal::internal("this service's URL has a character that means something to a shell");
        let read = script.for_reader(&token);
        let command = BootstrapCommand::new(&url, self.0.authorities.as_ref()).ok_or_else(no_command)?;
        Ok(manager::NewLink {
            id,
            sha256: read.sha256().to_owned(),
            expires: made.expires,
            command: command.text(),
            checked: command.checked(&read),
            url,
        })
    }

    /// The script of a cluster, of the entry as it is now. The same entry and files give the same bytes.
    async fn assemble(&self, cluster: Uuid, status: &SetupStatus) -> Result<Script, Refusal> {
        let (entry, added) = self.inputs(status).await?;
        let script = assemble(&entry, &self.values(cluster, status)?, &added, mark(&entry, &added));
        script.map_err(|error| Refusal::conflict(format!("There is no script: {error}")))
    }

    /// What a script is made of: the entry, and the files that are added to it.
    pub(super) async fn inputs(&self, status: &SetupStatus) -> Result<(Value, BTreeMap<String, String>), Refusal> {
        let app = application::BOOTSTRAP_SCRIPT;
        let entry = self.0.manager.centre().config_db.entry::<Value>(app, app).await;
        let entry = entry.map_err(|error| Refusal::unavailable(error.to_string()))?;
        let (entry, _) = entry.ok_or_else(|| {
            Refusal::conflict("There is no Bootstrap script entry: apply the centre's set-up data again")
        })?;
        let (Some(spec), Some(self_link)) = (&status.spec, &status.self_link) else {
            return Err(link_refusal(LinkError::NotReady));
        };
        let mut added = BTreeMap::from([(SELF_LINK.to_owned(), self_link.clone())]);
        if !spec.bare
            && let Some(flux) = self.flux().await?
        {
            added.insert(FLUX.1.to_owned(), flux);
        }
        Ok((entry, added))
    }

    /// What its placeholders stand for.
    pub(super) fn values<'a>(&'a self, cluster: Uuid, status: &'a SetupStatus) -> Result<Values<'a>, Refusal> {
        let spec = status.spec.as_ref().ok_or_else(|| link_refusal(LinkError::NotReady))?;
        Ok(Values { name: &spec.name, uuid: cluster, namespace: &spec.namespace, centre: &self.0.centre_values })
    }

    /// The manifests of Flux itself; none, where the repository of charts has none: an edge that has Flux needs none.
    async fn flux(&self) -> Result<Option<String>, Refusal> {
        let Some(helm) = self.0.manager.helm() else { return Ok(None) };
        match self.0.manager.centre().git.read(helm, FLUX.0, MAX_SCRIPT).await {
            Ok(Some(bytes)) => {
                let text = String::from_utf8(bytes);
                text.map(Some).map_err(|_| Refusal::conflict(format!("{} among the charts is no UTF-8", FLUX.0)))
            }
            Ok(None) | Err(GitError::Status(404)) => Ok(None),
            Err(error) => Err(Refusal::unavailable(format!("the repository of charts: {error}"))),
        }
    }
}

/// What makes the mark that ends files in a script: nobody can put the hash of all files into one of them.
fn mark(entry: &Value, added: &BTreeMap<String, String>) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(entry.to_string());
    for (name, text) in added {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(name);
        hash.update(text);
    }
    let mut mark = [0; 16];
    mark.copy_from_slice(&hash.finalize()[..16]);
    mark
}

fn shown(link: &Link, now: u64) -> manager::Link {
    let state = match () {
        () if link.revoked.is_some() => manager::LinkState::Revoked,
        () if link.theft.is_some() => manager::LinkState::Theft,
        () if link.redeemed.is_some() => manager::LinkState::Redeemed,
        () if !link.is_live(now) => manager::LinkState::Expired,
        () => manager::LinkState::Valid,
    };
    let uses = link.uses.iter().map(|used| manager::LinkUse {
        at: used.at,
        from: used.from.clone(),
        what: what(used.kind).to_owned(),
    });
    manager::Link {
        id: link.id,
        created: link.made,
        by: link.by.clone(),
        expires: link.expires,
        state,
        uses: uses.collect(),
    }
}

const fn what(kind: UseKind) -> &'static str {
    match kind {
        UseKind::Read => "read",
        UseKind::Redeemed => "redeemed",
        UseKind::RedeemedAgain => "redeemed again",
        UseKind::Theft => "redeemed by another",
        UseKind::Refused => "refused",
    }
}
