//! Tests of what cannot be tried here.

use std::env::var_os;
use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::panic::Location;

/// Set to anything but nothing, it makes every skip a failure. `.ci/run` sets it.
const NO_SKIP: &str = "LATCHKEY_NO_SKIP";

/// Says that a test, or a part of one, cannot be tried here: `why` names what is missing, and how to get it. The caller
/// returns.
///
/// # Panics
/// Where `LATCHKEY_NO_SKIP` is set: a test that did nothing has shown nothing.
#[track_caller]
pub fn skip(why: impl Display) {
    let place = Location::caller();
    let allowed = var_os(NO_SKIP).is_none_or(|value| value.is_empty());
    assert!(allowed, "{NO_SKIP} is set, and this cannot be tried here: {why}");
    // Past the test harness, which keeps what a test that passes prints. Nobody may be listening.
    let _ = stderr().write_all(format!("SKIPPED at {place}: {why}\n").as_bytes());
}
