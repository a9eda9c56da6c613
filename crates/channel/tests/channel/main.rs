//! The attested channel, attacked and honest.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod attacks;
mod machines;
mod support;
