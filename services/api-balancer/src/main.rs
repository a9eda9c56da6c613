//! `latchkey-api-balancer`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_api_balancer::run(std::env::args_os())
}
