//! Change notification.

use std::time::Duration;

use latchkey_factory_plus::notify::Request;
use latchkey_factory_plus_server::{Authenticated, Feed, FeedRefusal, Subscribing, Told, Updates};
use smol::future::FutureExt as _;
use smol::stream;

use super::Callers;
use crate::watch::{Subscription, Target};
use crate::{Caller, ConfigDb};

/// How often the rights of a caller are looked at while nothing changes; they are before each update, too.
const LOOK: Duration = Duration::from_secs(5);

/// Tells of entries and classes.
pub(super) struct Changes {
    database: ConfigDb,
    callers: Callers,
}

impl Changes {
    pub(super) fn new(database: ConfigDb, callers: Callers) -> Self {
        Self { database, callers }
    }
}

impl Feed for Changes {
    fn watch(&self, who: Authenticated, request: Request) -> Subscribing<'_> {
        Box::pin(async move {
            let uuid = request.uuid();
            let target = Target::of(request).ok_or(FeedRefusal::NotWatchable)?;
            let caller = self.callers.of(&who).await.map_err(|_| FeedRefusal::Unavailable)?;
            let subscription = self.database.subscribe(uuid, target);
            let watching = Watching { subscription, who, caller, callers: self.callers.clone() };
            let updates = stream::unfold(watching, |mut watching| async move {
                let told = watching.next().await?;
                Some((told, watching))
            });
            Ok(Box::pin(updates) as Updates)
        })
    }
}

/// One subscription.
struct Watching {
    subscription: Subscription,
    who: Authenticated,
    caller: Caller,
    callers: Callers,
}

impl Watching {
    /// The next update, by the rights that the caller has when it is sent. `None` when they are not known any more.
    async fn next(&mut self) -> Option<Told> {
        loop {
            let late = async {
                smol::Timer::after(LOOK).await;
                None
            };
            let next = async { Some(self.subscription.next(&self.caller).await) };
            let frame = next.or(late).await;
            self.caller = self.callers.of(&self.who).await.ok()?;
            // What was made ready by the rights of before is not sent to somebody who has lost them.
            let frame = match (self.subscription.recheck(&self.caller), frame) {
                (Some(instead), _) => Some(instead),
                (None, Some(frame)) => Some(frame?),
                (None, None) => None,
            };
            if let Some(text) = frame {
                return Some(Told::Frame { text, last: self.subscription.has_ended() });
            }
        }
    }
}
