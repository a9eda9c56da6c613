//! The data of a new centre.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod ajv;
mod data;
mod rights;
mod script;
mod site;
