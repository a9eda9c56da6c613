//! How much a test tries: what every run needs, or all there is.

use std::env::var_os;

/// The environment variable with which tests try all their cases, whatever its value. The runner sets it with `--all-cases`.
pub const ALL_CASES: &str = "LATCHKEY_ALL_CASES";

/// The cases of a list: the first `every_run` of them, or all in the nightly run.
///
/// # Panics
/// If there are fewer.
pub fn first<T>(every_run: usize, all: &[T]) -> &[T] {
    assert!(every_run <= all.len(), "{every_run} of {} cases", all.len());
    if var_os(ALL_CASES).is_some() { all } else { &all[..every_run] }
}
