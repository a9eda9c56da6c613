//! The bootstrap script as the centre's set-up has it: what shells make of it, in which orders it can fail, and what a real API server
//! says of what it applies.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod api_server;
mod edge;
mod orders;
mod shells;
mod written;
