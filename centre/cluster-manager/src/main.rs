//! `latchkey-cluster-manager`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_cluster_manager::run(std::env::args_os())
}
