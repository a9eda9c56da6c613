//! `latchkey-join-service`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_join_service::run(std::env::args_os())
}
