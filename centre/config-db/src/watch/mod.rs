//! Who is told of changes.
//!
//! A subscription's first state and its place in the index are taken under the lock that changes are published under: nothing
//! falls between them, and nothing is told twice. Changes are found by the resource that they concern, so a watcher of
//! another one costs nothing. What waits for a reader is bounded; who reads too slowly is dropped, and told so.

mod event;
mod index;
mod subscription;
mod target;
#[cfg(test)]
mod tests;

pub use index::Watchers;
pub use subscription::Subscription;
pub use target::Target;

pub(crate) use event::Event;
pub(crate) use target::Resource;
