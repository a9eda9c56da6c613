//! The interface over HTTP: which request means what, and what it needs.

mod feed;
mod links;
mod manifests;
mod page;
mod redeem;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use latchkey_centre_service::{AccessLists, Rights};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::manager::NameAnswer;
use latchkey_factory_plus::uuids::{permission, special};
use latchkey_factory_plus::{ClusterName, NameError, Uuid};
use latchkey_factory_plus_server::http::{HeaderValue, Method, StatusCode, header};
use latchkey_factory_plus_server::{Answer, Authenticated, Handler, Refusal, Request, Response, Terms};

use crate::config::{Config, ConfigError};
use crate::links::{LinkError, Permit};
use crate::machine::DecommissionError;
use crate::manager::Manager;
use crate::script::{Authorities, CentreValues};
use crate::seal::MAX_SECRET;
use page::Pages;
use redeem::Redemptions;

/// How long a request may take that reads or writes a repository.
const WITH_GIT: Duration = Duration::from_mins(3);

/// Answers requests, and tells of changes. Clones are one.
#[derive(Debug, Clone)]
pub struct Web(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    manager: Manager,
    lists: AccessLists,
    pages: Pages,
    /// Where this service is, as edges know it.
    url: String,
    /// What stands in scripts.
    centre_values: CentreValues,
    /// What bootstrap commands carry.
    authorities: Option<Authorities>,
    redemptions: Redemptions,
}

/// What a path means, once it was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path<'a> {
    Clusters,
    Name(&'a str),
    Status(Uuid),
    BootstrapUrl(Uuid),
    Links(Uuid),
    Link(Uuid, Uuid),
    Manifests(Uuid),
    Secret(Uuid, [&'a str; 3]),
    Decommission(Uuid),
    Bootstrap(&'a str),
    Redeem(&'a str),
}

/// Where scripts are read, and links are redeemed. Nobody is asked who he is: the token in the path is what counts.
const BOOTSTRAP: &str = "/v1/bootstrap/";

impl Web {
    /// For a manager, by the service's configuration.
    ///
    /// # Errors
    /// [`ConfigError::Url`], [`ConfigError::Authorities`], [`ConfigError::Word`].
    pub fn new(manager: Manager, lists: AccessLists, config: &Config) -> Result<Self, ConfigError> {
        let (url, config_db) = (config.own_url()?, config.config_db()?);
        let pages = Pages::new(url, config_db, config.http.insecure);
        let (centre_values, authorities) = (config.centre_values()?, config.authorities()?);
        let redemptions = Redemptions::default();
        Ok(Self(Arc::new(Inner {
            manager,
            lists,
            pages,
            url: url.to_string(),
            centre_values,
            authorities,
            redemptions,
        })))
    }

    async fn answer(&self, request: Request) -> Answer {
        if let Some(answer) = self.page(&request)? {
            return Ok(answer);
        }
        let segments = request.segments()?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let path = read(&segments).ok_or_else(|| Refusal::not_found("Nothing is here"))?;
        let method = request.method().clone();
        match (method, path) {
            (Method::GET, Path::Bootstrap(token)) => self.script(token, &request).await,
            (Method::POST, Path::Redeem(token)) => self.redeem(token, request).await,
            (Method::GET, Path::Clusters) => self.list(&request).await,
            (Method::GET, Path::Name(name)) => self.name(name, &request).await,
            (Method::GET, Path::Status(cluster)) => self.status(cluster, &request).await,
            (Method::POST, Path::BootstrapUrl(cluster)) => self.bootstrap_url(cluster, request).await,
            (Method::POST, Path::Links(cluster)) => self.new_link(cluster, request).await,
            (Method::GET, Path::Links(cluster)) => self.links(cluster, &request).await,
            (Method::DELETE, Path::Link(cluster, link)) => self.revoke(cluster, link, &request).await,
            (Method::POST, Path::Manifests(cluster)) => self.manifests(cluster, request).await,
            (Method::PUT, Path::Secret(cluster, parts)) => self.seal(cluster, parts, request).await,
            (Method::DELETE, Path::Secret(cluster, parts)) => self.unseal(cluster, parts, &request).await,
            (Method::POST, Path::Decommission(cluster)) => self.decommission(cluster, &request).await,
            _ => Err(Refusal::method_not_allowed("This cannot be done to what is at this path")),
        }
    }

    fn page(&self, request: &Request) -> Result<Option<Response>, Refusal> {
        if request.method() != Method::GET {
            return Ok(None);
        }
        let matches = request.header(&header::IF_NONE_MATCH);
        self.0.pages.answer(request.path(), matches, &self.0.manager)
    }

    /// What the caller may do; 503 while the clusters are not known.
    async fn rights(&self, request: &Request) -> Result<Rights, Refusal> {
        self.rights_of(request.caller().known()?).await
    }

    async fn rights_of(&self, who: &Authenticated) -> Result<Rights, Refusal> {
        if !self.0.manager.is_ready() {
            return Err(Refusal::unavailable("the clusters' entries were not read yet"));
        }
        self.0.lists.of(who).await
    }

    /// Proof that the caller may manage a cluster.
    async fn permit(&self, cluster: Uuid, request: &Request) -> Result<Permit, Refusal> {
        permit(&self.rights(request).await?, cluster).map_err(link_refusal)
    }

    async fn list(&self, request: &Request) -> Answer {
        let rights = self.rights(request).await?;
        Response::json(&self.0.manager.clusters(|cluster| rights.allow(permission::MANAGE_CLUSTER, cluster)))
    }

    /// For whoever may have clusters of his own.
    async fn name(&self, name: &str, request: &Request) -> Answer {
        self.rights(request).await?.require(permission::MANAGE_CLUSTER, special::MINE)?;
        let name: ClusterName = name.parse().map_err(|error: NameError| Refusal::bad_request(error.to_string()))?;
        let reason = self.0.manager.name_refusal(&name).map(|why| why.to_string());
        Response::json(&NameAnswer { free: reason.is_none(), reason })
    }

    async fn status(&self, cluster: Uuid, request: &Request) -> Answer {
        self.permit(cluster, request).await?;
        Response::json(&self.0.manager.cluster(cluster).ok_or_else(no_cluster)?)
    }

    async fn decommission(&self, cluster: Uuid, request: &Request) -> Answer {
        self.permit(cluster, request).await?;
        let who = request.caller().known()?.upn().as_str();
        match self.0.manager.decommission(cluster) {
            Ok(()) => {
                tracing::warn!(%cluster, who, from = %request.peer(), "Decommissioning");
                // Who is told that it is accepted does not ask again.
                self.0.manager.decommissioning(cluster).await;
                Ok(Response::empty(StatusCode::ACCEPTED))
            }
            Err(error @ DecommissionError::Nothing) => Err(Refusal::not_found(error.to_string())),
            Err(error) => Err(Refusal::conflict(error.to_string())),
        }
    }
}

impl Handler for Web {
    fn terms(&self, method: &Method, path: &str) -> Terms {
        if *method == Method::GET && (page::has(path) || path.starts_with(BOOTSTRAP)) {
            return Terms::open();
        }
        if *method == Method::POST && path.starts_with(BOOTSTRAP) {
            return redeem::terms();
        }
        let terms = Terms::authenticated().time(WITH_GIT);
        if *method == Method::PUT { terms.body_limit(MAX_SECRET as u64) } else { terms }
    }

    async fn handle(&self, request: Request) -> Answer {
        self.answer(request).await.map(|response| {
            let (name, value) = (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response.with(name, value)
        })
    }
}

fn read<'a>(segments: &[&'a str]) -> Option<Path<'a>> {
    let uuid = |text: &str| text.parse::<Uuid>().ok();
    Some(match *segments {
        ["v1", "cluster"] => Path::Clusters,
        ["v1", "name", name] => Path::Name(name),
        ["v1", "bootstrap", token] => Path::Bootstrap(token),
        ["v1", "bootstrap", token, "redeem"] => Path::Redeem(token),
        ["v1", "cluster", cluster, "status"] => Path::Status(uuid(cluster)?),
        ["v1", "cluster", cluster, "bootstrap-url"] => Path::BootstrapUrl(uuid(cluster)?),
        ["v1", "cluster", cluster, "link"] => Path::Links(uuid(cluster)?),
        ["v1", "cluster", cluster, "link", link] => Path::Link(uuid(cluster)?, uuid(link)?),
        ["v1", "cluster", cluster, "manifests"] => Path::Manifests(uuid(cluster)?),
        ["v1", "cluster", cluster, "decommission"] => Path::Decommission(uuid(cluster)?),
        ["v1", "cluster", cluster, "secret", namespace, name, key] => {
            Path::Secret(uuid(cluster)?, [namespace, name, key])
        }
        _ => return None,
    })
}

/// The permit that rights give; the root principal holds every permission.
fn permit(rights: &Rights, cluster: Uuid) -> Result<Permit, LinkError> {
    if rights.is_root() {
        let all = Access { permission: permission::MANAGE_CLUSTER, target: special::WILDCARD };
        return Permit::of(&[all], cluster);
    }
    Permit::of(rights.list(), cluster)
}

fn no_cluster() -> Refusal {
    Refusal::not_found("There is no such cluster: nothing was configured with this UUID")
}

fn link_refusal(error: LinkError) -> Refusal {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Refusal::new(status, error.to_string())
}
