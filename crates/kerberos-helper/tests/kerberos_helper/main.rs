//! The helper, before a real KDC.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod admin;
mod holder;
mod pipe;
mod rig;
mod verify;
