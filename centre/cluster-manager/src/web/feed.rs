//! Change notification: SEARCH of `v1/cluster/`, WATCH of `v1/cluster/UUID/status`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use event_listener::EventListener;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Method, Request, Response, Update};
use latchkey_factory_plus::uuids::permission;
use latchkey_factory_plus_server::{Authenticated, Feed, FeedRefusal, Subscribing, Told, Updates};
use serde_json::{Map, Value};
use smol::future::FutureExt as _;
use smol::stream;

use super::Web;

/// How often the rights of a caller are looked at while nothing changes; they are before each update, too.
const LOOK: Duration = Duration::from_secs(5);

/// What is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    All,
    One(Uuid),
}

/// One subscription: what was told last, and what is still to be told.
struct Subscription {
    web: Web,
    who: Authenticated,
    target: Target,
    changed: EventListener,
    told: Option<BTreeMap<Uuid, Value>>,
    updates: VecDeque<Update>,
}

impl Feed for Web {
    fn watch(&self, who: Authenticated, request: Request) -> Subscribing<'_> {
        let target = target(&request);
        // From now on: what changes while the first answer is made is told after it.
        let changed = self.0.manager.changed();
        Box::pin(async move {
            let target = target?;
            if !self.0.manager.is_ready() {
                return Err(FeedRefusal::Unavailable);
            }
            let (told, updates) = (None, VecDeque::new());
            let subscription = Subscription { web: self.clone(), who, target, changed, told, updates };
            Ok(Box::pin(stream::unfold(subscription, next)) as Updates)
        })
    }
}

fn target(request: &Request) -> Result<Target, FeedRefusal> {
    let path = |text: &str| text.strip_prefix('/').unwrap_or(text).to_owned();
    match request {
        Request::Search { parent, filter: None, .. } if path(parent) == "v1/cluster/" => Ok(Target::All),
        Request::Search { filter: Some(_), .. } => Err(FeedRefusal::Malformed),
        Request::Watch { request, .. } if request.method == Some(Method::Head) => Err(FeedRefusal::Malformed),
        Request::Watch { request, .. } => {
            let path = path(&request.url);
            let uuid = path.strip_prefix("v1/cluster/").and_then(|rest| rest.strip_suffix("/status"));
            uuid.and_then(|uuid| uuid.parse().ok()).map(Target::One).ok_or(FeedRefusal::NotWatchable)
        }
        _ => Err(FeedRefusal::NotWatchable),
    }
}

/// The next update; no more where the caller's rights are not known: the client asks again then.
async fn next(mut subscription: Subscription) -> Option<(Told, Subscription)> {
    loop {
        if let Some(update) = subscription.updates.pop_front() {
            return Some((update.into(), subscription));
        }
        if subscription.told.is_some() {
            let late = async {
                smol::Timer::after(LOOK).await;
            };
            (&mut subscription.changed).or(late).await;
            subscription.changed = subscription.web.0.manager.changed();
        }
        subscription.look().await?;
    }
}

impl Subscription {
    /// Finds what changed since it was told.
    async fn look(&mut self) -> Option<()> {
        let rights = self.web.rights_of(&self.who).await.ok()?;
        let may = |cluster| rights.allow(permission::MANAGE_CLUSTER, cluster);
        if let Target::One(cluster) = self.target
            && !may(cluster)
        {
            self.updates.push_back(update(403, None, None, None));
            return Some(());
        }
        let of = |cluster| match self.target {
            Target::All => may(cluster),
            Target::One(one) => one == cluster,
        };
        let now: BTreeMap<Uuid, Value> = self
            .web
            .0
            .manager
            .clusters(of)
            .into_iter()
            .filter_map(|(uuid, cluster)| Some((uuid, serde_json::to_value(cluster).ok()?)))
            .collect();
        let told = self.told.replace(now);
        let (Some(now), updates) = (&self.told, &mut self.updates) else { return None };
        match (self.target, told) {
            (Target::All, None) => {
                let children = now.iter().map(|(uuid, body)| (uuid.to_string(), good(body))).collect();
                updates.push_back(update(201, Some(empty(204)), None, Some(children)));
            }
            (Target::All, Some(told)) => {
                let gone = told.keys().filter(|uuid| !now.contains_key(uuid));
                updates.extend(gone.map(|uuid| update(200, Some(empty(404)), Some(uuid.to_string()), None)));
                let changed = now.iter().filter(|(uuid, body)| told.get(uuid) != Some(body));
                updates.extend(changed.map(|(uuid, body)| update(200, Some(good(body)), Some(uuid.to_string()), None)));
            }
            (Target::One(cluster), told) => {
                let status = if told.is_some() { 200 } else { 201 };
                if told.is_none_or(|told| told != *now) {
                    let response = now.get(&cluster).map_or_else(|| empty(404), good);
                    updates.push_back(update(status, Some(response), None, None));
                }
            }
        }
        Some(())
    }
}

fn update(
    status: u16,
    response: Option<Response>,
    child: Option<String>,
    children: Option<BTreeMap<String, Response>>,
) -> Update {
    // The server sets the UUID.
    Update { uuid: Uuid::NIL, status, response, child, children }
}

fn good(body: &Value) -> Response {
    Response { status: 200, body: Some(body.clone()), headers: Map::new() }
}

fn empty(status: u16) -> Response {
    Response { status, body: None, headers: Map::new() }
}
