//! `latchkey-auth`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_auth::run(std::env::args_os())
}
