//! The interface over real HTTP and real `WebSocket`s, with a real authorisation service. A fake stands where a KDC would be.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod complaints;
mod conditions;
mod entries;
mod interface;
mod notify;
mod npm_client;
mod rig;
mod scopes;
