//! `latchkey-enrol-service`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_enrol_service::run(std::env::args_os())
}
