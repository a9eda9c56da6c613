//! A skip is seen, or is a failure.

use latchkey_test_support::{output, skip};
use std::env::current_exe;
use std::process::{Command, Output};

#[test]
#[ignore = "run by the test below"]
fn of_something_that_is_missing() {
    skip("there is no such tool");
}

/// The test above, in a process of its own.
fn skips(no_skip: &str) -> Output {
    let mut tests = Command::new(current_exe().expect("a test is a file"));
    tests.args(["--ignored", "--exact", "skips::of_something_that_is_missing"]).env("LATCHKEY_NO_SKIP", no_skip);
    output(&mut tests).expect("it is this program")
}

#[test]
fn a_skip_is_said_although_the_test_passes_and_fails_it_where_none_is_wanted() {
    let allowed = skips("");
    let said = String::from_utf8_lossy(&allowed.stderr);
    assert!(allowed.status.success(), "{allowed:?}");
    assert!(said.contains("SKIPPED at ") && said.contains("skips.rs") && said.contains("no such tool"), "{said}");
    let forbidden = skips("1");
    let said = String::from_utf8_lossy(&forbidden.stdout);
    assert!(
        !forbidden.status.success() && said.contains("cannot be tried here: there is no such tool"),
        "{forbidden:?}"
    );
}
