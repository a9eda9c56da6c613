//! The enrol service: its decisions, its process before a real centre, and its part of a site.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod centre_site;
mod enrol;
mod enrol_decisions;
