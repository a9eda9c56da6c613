//! The server that services of a centre stand on.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod authentication;
mod hostile;
mod notify;
mod requests;
mod rig;
mod tls;
