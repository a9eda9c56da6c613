//! Change notification, version 2: a WebSocket at `/notify/v2`.
//!
//! 1. [`upgrade`]: from a request to a WebSocket (RFC 6455, section 4.2).
//! 2. [`session`]: the first frame says who it is; then subscriptions come and go.
//! 3. [`feed`]: what a service implements.

mod feed;
mod outbox;
mod session;
mod upgrade;

pub use feed::{Feed, FeedRefusal, Subscribing, Told, Updates};
pub(crate) use session::serve;
pub(crate) use upgrade::upgrade;
