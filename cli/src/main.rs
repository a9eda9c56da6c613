//! `latchkey`: see the library for everything, and `latchkey --help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_cli::run(std::env::args_os().skip(1)).into()
}
