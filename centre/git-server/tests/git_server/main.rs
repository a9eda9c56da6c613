//! The git server, by stock git, isomorphic-git and strangers.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod bounds;
mod isomorphic_git;
mod rig;
mod service;
mod stock_git;
