//! Change notification: access lists and principals, watched.

use latchkey_factory_plus::notify::{Method, Request, Response, Update};
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_server::{Authenticated, Feed, FeedRefusal, Subscribing, Updates};
use serde_json::Map;
use smol::stream;

use crate::api::{Answer, Body, Read, watched};
use crate::keeper::{Keeper, Seen};

/// Tells of access lists.
pub(super) struct Lists(Keeper);

impl Lists {
    pub(super) fn of(keeper: Keeper) -> Self {
        Self(keeper)
    }

    fn begin(&self, who: &Authenticated, request: &Request) -> Result<Updates, FeedRefusal> {
        let Request::Watch { request, .. } = request else { return Err(FeedRefusal::NotWatchable) };
        if request.method == Some(Method::Head) {
            return Err(FeedRefusal::Malformed);
        }
        let caller = who.upn().clone();
        let read = watched(&request.url).map_err(|refused| match refused.status {
            404 => FeedRefusal::NotWatchable,
            _ => FeedRefusal::Malformed,
        })?;
        let watching = Watching { keeper: self.0.clone(), caller, read, seen: None, told: None };
        Ok(Box::pin(stream::unfold(watching, |mut watching| async move {
            let update = watching.next().await;
            Some((update.into(), watching))
        })))
    }
}

impl Feed for Lists {
    fn watch(&self, who: Authenticated, request: Request) -> Subscribing<'_> {
        Box::pin(async move { self.begin(&who, &request) })
    }
}

/// One subscription.
struct Watching {
    keeper: Keeper,
    caller: Upn,
    read: Read,
    seen: Option<Seen>,
    told: Option<Answer>,
}

impl Watching {
    /// The next answer that is not the one before. The caller's rights are looked at each time.
    async fn next(&mut self) -> Update {
        loop {
            let changed = self.keeper.changed();
            let looked = self.keeper.look(&self.caller, &self.read, &mut self.seen);
            if let Some(answer) = looked.filter(|answer| self.told.as_ref() != Some(answer)) {
                let status = if self.told.is_none() { 201 } else { 200 };
                let response = response(&answer);
                self.told = Some(answer);
                return Update { uuid: Uuid::NIL, status, response: Some(response), child: None, children: None };
            }
            changed.await;
        }
    }
}

fn response(answer: &Answer) -> Response {
    let body = if let Body::Json(value) = &answer.body { Some(value.clone()) } else { None };
    Response { status: answer.status, body, headers: Map::new() }
}
