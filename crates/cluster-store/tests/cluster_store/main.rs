//! A cluster in plain files.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod firmware;
mod places;
mod store;
