//! The bootstrap token of a ticket, where the cluster is kept in an API server: drawn first, made while the record is written that
//! names it, deleted when it is good for nothing any more.

use crate::back_end::BackEnd;
use crate::decision::{Refusal, State};
use crate::store::Store;
use latchkey_api::v1::ClusterJoin;
use latchkey_attesting_service::clock::unix;
use latchkey_cluster_store::{ClusterMaterial, NodeName, StoreError, TicketRecord};
use latchkey_kubernetes_store::tokens::{BootstrapToken, DrawnToken};
use latchkey_kubernetes_store::{ApiStoreCode, KubernetesStore};
use latchkey_reason::ReasonCode as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long until a deletion that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Makes tokens, and ends them.
#[derive(Debug)]
pub(crate) struct Tokens {
    api: Option<Arc<KubernetesStore>>,
    store: Arc<Store>,
}

/// What a node is to join by: a token that is drawn and not made.
#[derive(Debug)]
pub(crate) struct Drawn {
    token: DrawnToken,
    node: NodeName,
    material: Arc<ClusterMaterial>,
    api: Arc<KubernetesStore>,
}

/// What a node joins by, beside its keys. Ended when it is dropped, unless its ticket is given.
#[derive(Debug)]
pub(crate) struct Entry {
    token: Option<BootstrapToken>,
    material: Arc<ClusterMaterial>,
    api: Arc<KubernetesStore>,
}

impl Tokens {
    pub(crate) fn new(back_end: &BackEnd, store: Arc<Store>) -> Self {
        Self { api: back_end.api_server().cloned(), store }
    }

    /// Draws a token for this node alone, which no record names; `None` where the cluster is kept in a directory.
    pub(crate) async fn draw(
        &self,
        node: &NodeName,
        material: Option<&Arc<ClusterMaterial>>,
    ) -> Result<Option<Drawn>, Refusal> {
        let Some(api) = self.api.clone() else { return Ok(None) };
        let material = Arc::clone(material.ok_or(Refusal::ClusterNotDescribed)?);
        let checks = Arc::clone(&api);
        let named = node.clone();
        // Before anything is written: by a wrong clock records would be wrong, too.
        self.store.beside(move || checks.check_clock_lately().map_err(|error| not_made(&named, &error))).await?;
        loop {
            let token = DrawnToken::draw().map_err(|error| not_made(node, &error))?;
            let is_named = |state: &State| state.ticket_holder(token.id(), self.store.now()).is_some();
            if !self.store.look(is_named) {
                return Ok(Some(Drawn { token, node: node.clone(), material, api }));
            }
        }
    }

    /// Makes a token that was drawn.
    pub(crate) async fn make(&self, drawn: Option<Drawn>) -> Result<Option<Entry>, Refusal> {
        let Some(Drawn { token, node, material, api }) = drawn else { return Ok(None) };
        let made = self.store.beside(move || {
            let token = api.issue_token(token, &node).map_err(|error| not_made(&node, &error))?;
            // From here on it is ended with this value, however often that takes.
            let mut entry = Entry { token: Some(token), material, api };
            let clocks = entry.token.as_mut().map_or(Ok(()), BootstrapToken::check_clocks);
            clocks.map_err(|error| not_made(&node, &error))?;
            Ok(entry)
        });
        made.await.map(Some)
    }

    /// Deletes the token of a ticket that is over. Nobody waits for that: it is worth nothing by then.
    pub(crate) fn end(&self, ticket: Option<TicketRecord>) {
        if let (Some(api), Some(ticket)) = (&self.api, ticket) {
            end(Arc::clone(api), ticket.token, ticket.ends_at);
        }
    }
}

impl Drawn {
    /// What the node's record says of the ticket.
    pub(crate) fn record(&self) -> TicketRecord {
        TicketRecord::new(self.token.id(), u64::try_from(self.token.expires_at()).unwrap_or_default())
    }
}

impl Entry {
    /// What the ticket says, now that its record stands; `control_planes` are the addresses of those on record.
    pub(crate) fn into_ticket(mut self, control_planes: Vec<IpAddr>) -> ClusterJoin {
        let mut join = ClusterJoin::default();
        if let Some(token) = self.token.take() {
            join.bootstrap_token = String::from_utf8_lossy(token.expose()).into_owned();
        }
        join.api_server_endpoint.clone_from(&self.material.file.api_server);
        let api_servers = self.material.file.api_servers(control_planes);
        join.api_servers = api_servers.iter().map(ToString::to_string).collect();
        join.kubernetes_version.clone_from(&self.material.file.kubernetes_version);
        join.component_list = self.material.file.component_list.clone().unwrap_or_default().into_bytes();
        join.untainted = self.material.file.untainted;
        join.ca_certificates.clone_from(&self.material.authority);
        join
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let ends_at = u64::try_from(token.expires_at()).unwrap_or_default();
            end(Arc::clone(&self.api), token.id().to_owned(), ends_at);
        }
    }
}

fn not_made(node: &NodeName, error: &StoreError) -> Refusal {
    tracing::error!(%error, node = node.as_str(), "No bootstrap token could be made");
    let differ =
        matches!(error, StoreError::Elsewhere { reason, .. } if *reason == ApiStoreCode::ClocksDiffer.reason());
    if differ { Refusal::ClocksDiffer } else { Refusal::TokenNotMade }
}

/// Deletes a token, and tries again where the API server does not answer: until it has ended by itself, `ends_at` seconds after the
/// Unix epoch.
fn end(api: Arc<KubernetesStore>, token: String, ends_at: u64) {
    let ended = async move {
        loop {
            let (asked, id) = (Arc::clone(&api), token.clone());
            let Err(error) = smol::unblock(move || asked.end_token(&id)).await else { return };
            tracing::warn!(%error, token, "A bootstrap token that is over could not be deleted yet");
            if unix() >= ends_at {
                return;
            }
            smol::Timer::after(AGAIN).await;
        }
    };
    smol::spawn(ended).detach();
}
