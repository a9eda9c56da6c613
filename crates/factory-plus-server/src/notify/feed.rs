//! What a service tells of changes.

use crate::Authenticated;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::{Request, Update};
use smol::stream::Stream;
use std::pin::Pin;

/// Updates of one subscription, as they come. One that [is the last](Told::is_last) is the last; a stream that just ends is told as
/// 503. Dropped when the subscription ends.
pub type Updates = Pin<Box<dyn Stream<Item = Told> + Send>>;

/// What a subscriber is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// An update. The subscription's UUID is set by the server.
    Update(Box<Update>),
    /// A finished frame, sent as it is: the JSON of an [`Update`] with the [UUID of the request](Request::uuid).
    Frame {
        /// The JSON.
        text: String,
        /// Whether nothing follows: it says a status of 400 or more.
        last: bool,
    },
}

impl Told {
    /// Whether nothing follows.
    pub const fn is_last(&self) -> bool {
        match self {
            Self::Update(update) => update.is_last(),
            Self::Frame { last, .. } => *last,
        }
    }

    /// The frame's text, of a subscription.
    pub(crate) fn text(self, uuid: Uuid) -> Option<String> {
        match self {
            // Its maps have strings as keys, so it is JSON.
            Self::Update(update) => serde_json::to_string(&Update { uuid, ..*update }).ok(),
            Self::Frame { text, .. } => Some(text),
        }
    }
}

impl From<Update> for Told {
    fn from(update: Update) -> Self {
        Self::Update(Box::new(update))
    }
}

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
