//! `latchkey-components`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_components::run(std::env::args_os())
}
