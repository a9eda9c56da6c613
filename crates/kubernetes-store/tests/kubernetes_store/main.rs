//! A cluster in its API server, and the chart with the rights for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod api_server;
mod chart;
