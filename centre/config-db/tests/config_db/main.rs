//! The configuration database: its engines, its program, and what it serves.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod database;
mod place;
mod programs;
mod served;
