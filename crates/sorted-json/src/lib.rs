//! JSON values, each kept as one text with sorted keys, and merge patches of them (RFC 7396).
//!
//! A crate of its own, since it is compiled for speed: every write to the configuration database goes through it.

mod json;
mod members;
mod patch;
mod scan;

pub use json::{DEEPEST_JSON, Json, JsonError, LONGEST_JSON};
pub use patch::{MergeError, is_met};
