//! Processes whose wall clock is wrong.

use std::path::Path;
use std::process::Command;

use crate::skip;

/// Where Debian and Fedora put libfaketime.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Lets the program of `command` begin at `time` (`YYYY-MM-DD hh:mm:ss`, UTC) by its wall clock; waits take as long as they
/// do. `None`, and a skip, where libfaketime is not installed. The program must be linked dynamically.
#[track_caller]
pub fn wrong_clock<'a>(command: &'a mut Command, time: &str) -> Option<&'a mut Command> {
    let Some(library) = LIBRARIES.iter().find(|path| Path::new(path).is_file()) else {
        skip("libfaketime is not installed (Debian: apt-get install libfaketime)");
        return None;
    };
    command.env("LD_PRELOAD", library).env("FAKETIME", format!("@{time}")).env("TZ", "UTC");
    Some(command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1"))
}
