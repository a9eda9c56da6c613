//! The database as its callers see it, on each engine.
#![allow(clippy::unwrap_used)]

mod engines;
mod failing;
mod postgres;
mod rig;
mod suite;
mod watching;
