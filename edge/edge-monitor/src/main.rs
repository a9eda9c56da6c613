//! `latchkey-edge-monitor`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_edge_monitor::run(std::env::args_os())
}
