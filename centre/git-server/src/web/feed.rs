//! Change notification: `v1/status/` and `v1/status/UUID`.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Method, Request, Response, Update};
use latchkey_factory_plus_server::{Authenticated, Feed, FeedRefusal, Subscribing, Told, Updates};
use serde_json::{Map, Value};
use smol::channel::Receiver;
use smol::stream;

use super::{Web, caller};

/// One subscription: what was told last, and what may have changed since.
struct Subscription {
    web: Web,
    who: Authenticated,
    /// One repository, or all.
    of: Option<Uuid>,
    moved: Receiver<Uuid>,
    told: Option<Response>,
}

impl Feed for Web {
    fn watch(&self, who: Authenticated, request: Request) -> Subscribing<'_> {
        let watched = watched(&request).map(|of| {
            // From now on: what moves while the first answer is made is told after it.
            let moved = self.0.server.watch();
            Subscription { web: self.clone(), who, of, moved, told: None }
        });
        Box::pin(async move {
            let subscription = watched?;
            if !self.is_ready() {
                return Err(FeedRefusal::Unavailable);
            }
            Ok(Box::pin(stream::unfold(subscription, next)) as Updates)
        })
    }
}

/// What is watched: one repository, or all.
fn watched(request: &Request) -> Result<Option<Uuid>, FeedRefusal> {
    let Request::Watch { request, .. } = request else { return Err(FeedRefusal::NotWatchable) };
    if request.method == Some(Method::Head) {
        return Err(FeedRefusal::Malformed);
    }
    let path = request.url.strip_prefix('/').unwrap_or(&request.url);
    match path.strip_prefix("v1/status") {
        Some("" | "/") => Ok(None),
        Some(rest) => {
            let uuid = rest.strip_prefix('/').and_then(|uuid| uuid.parse().ok());
            uuid.map(Some).ok_or(FeedRefusal::NotWatchable)
        }
        None => Err(FeedRefusal::NotWatchable),
    }
}

/// The next update; no more when too many changes waited: the client asks again then.
async fn next(mut subscription: Subscription) -> Option<(Told, Subscription)> {
    loop {
        let first = subscription.told.is_none();
        if !first {
            let moved = subscription.moved.recv().await.ok()?;
            if subscription.of.is_some_and(|watched| watched != moved) {
                continue;
            }
        }
        let response = subscription.read().await?;
        if subscription.told.as_ref() == Some(&response) {
            continue;
        }
        subscription.told = Some(response.clone());
        let status = if first { 201 } else { 200 };
        let update = Update { uuid: Uuid::NIL, status, response: Some(response), child: None, children: None };
        return Some((update.into(), subscription));
    }
}

impl Subscription {
    /// What GET answers now; nothing when that cannot be told.
    async fn read(&self) -> Option<Response> {
        let rights = self.web.0.lists.of(&self.who).await.ok()?;
        let caller = caller(&self.who, &rights);
        let server = &self.web.0.server;
        let read = match self.of {
            None => serde_json::to_value(server.all_branches(caller).await).ok(),
            Some(uuid) => match server.branches(caller, uuid).await {
                Ok(branches) => serde_json::to_value(branches).ok(),
                Err(error) if error.status() < 500 => return Some(response(error.status(), None)),
                Err(_) => None,
            },
        };
        read.map(|body| response(200, Some(body)))
    }
}

fn response(status: u16, body: Option<Value>) -> Response {
    Response { status, body, headers: Map::new() }
}
