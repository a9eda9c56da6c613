//! What the centre says of what is to be deployed.

use std::time::Duration;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{application, service};
use latchkey_factory_plus_client::notify::{Children, Search, State};
use latchkey_factory_plus_client::{BaseUrl, Client, ConfigDb, Directory};
use serde_json::json;
use smol::Timer;
use smol::channel::Sender;
use smol::future::FutureExt as _;

/// The directory is asked again after this, which says where the git server is.
const GIT_EVERY: Duration = Duration::from_hours(2);
/// And where it did not say.
const GIT_AGAIN: Duration = Duration::from_secs(30);

/// The entries that are followed.
#[derive(Debug)]
pub(super) struct Wanted {
    deployments: Search,
    charts: Search,
    kinds: Search,
}

/// All of them, as they were heard last.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) deployments: Children,
    pub(super) charts: Children,
    pub(super) kinds: Children,
}

impl Wanted {
    pub(super) fn of(client: &Client, cluster: Uuid) -> Self {
        let db = ConfigDb::of(client);
        Self {
            deployments: db.search_entries(application::EDGE_DEPLOYMENT, Some(json!({ "cluster": cluster }))),
            charts: db.search_entries(application::HELM_CHART_TEMPLATE, None),
            kinds: db.search_entries(application::K8S_RESOURCE_TEMPLATE, None),
        }
    }

    /// Waits until something was heard.
    pub(super) async fn changed(&mut self) {
        self.deployments.next().or(self.charts.next()).or(self.kinds.next()).await;
    }

    /// All of them; `None` until all were heard.
    pub(super) fn heard(&self) -> Option<Heard> {
        Some(Heard {
            deployments: self.deployments.children()?,
            charts: self.charts.children()?,
            kinds: self.kinds.children()?,
        })
    }

    /// Why they are not followed.
    pub(super) fn wrong(&self) -> impl Iterator<Item = String> {
        [&self.deployments, &self.charts, &self.kinds].into_iter().filter_map(|search| match search.state() {
            State::Stale { reason, .. } => Some(reason.to_string()),
            State::Waiting | State::Fresh => None,
        })
    }
}

/// Tells where the git server is, now and whenever it is elsewhere. Ends when nobody listens.
pub(super) async fn follow_git(client: Client, tell: Sender<BaseUrl>) {
    let directory = Directory::of(&client);
    let mut known = None;
    loop {
        let found = directory.services(service::GIT).await;
        let url = found.map(|found| found.into_iter().next().and_then(|one| one.url.parse::<BaseUrl>().ok()));
        let pause = match url {
            Ok(Some(url)) => {
                if known.as_ref() != Some(&url) && tell.send(url.clone()).await.is_err() {
                    return;
                }
                known = Some(url);
                GIT_EVERY
            }
            Ok(None) => {
                tracing::warn!("The directory names no git server; charts of other sources wait for it");
                GIT_AGAIN
            }
            Err(error) => {
                tracing::warn!(%error, "The directory does not say where the git server is; it is asked again");
                GIT_AGAIN
            }
        };
        Timer::after(pause).await;
    }
}
