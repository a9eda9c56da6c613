//! The monitor before a real broker, and its messages by decoders of other makers.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod broker;
mod decoders;
