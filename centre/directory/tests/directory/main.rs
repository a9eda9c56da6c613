//! What the directory decides, without a network.

#![allow(clippy::unwrap_used, reason = "tests")]

mod addresses;
mod interface;
mod keeping;
