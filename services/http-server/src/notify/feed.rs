//! What a service tells of changes.

use crate::Authenticated;
use latchkey_factory_plus::notify::{Request, Update};
use smol::stream::Stream;
use std::pin::Pin;

/// Updates of one subscription, as they come. One with [`Update::is_last`] is the last; a stream that just ends is told as 503.
/// The subscription's UUID is set by the server. Dropped when the subscription ends.
pub type Updates = Pin<Box<dyn Stream<Item = Update> + Send>>;

/// A subscription that begins.
pub type Subscribing<'a> = Pin<Box<dyn Future<Output = Result<Updates, FeedRefusal>> + Send + 'a>>;

/// What a service tells of changes.
pub trait Feed: Send + Sync + 'static {
    /// Begins a subscription: `request` is a WATCH or a SEARCH, never a CLOSE. Whether `caller` may read what it is told is for the
    /// feed to decide, now and before each update.
    fn watch(&self, caller: Authenticated, request: Request) -> Subscribing<'_>;
}

/// Why there is no subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedRefusal {
    /// What is asked for cannot be: 400.
    Malformed,
    /// The caller may not ask: 403.
    Forbidden,
    /// There is nothing to watch there: 404.
    NotWatchable,
    /// The service's own fault: 500.
    Internal,
    /// Something the service needs does not work: 503.
    Unavailable,
}

impl FeedRefusal {
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Forbidden => 403,
            Self::NotWatchable => 404,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }
}
