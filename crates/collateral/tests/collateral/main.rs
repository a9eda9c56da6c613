//! What vendors publish, fetched from mirrors.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod fetch;
mod fetch_tdx;
