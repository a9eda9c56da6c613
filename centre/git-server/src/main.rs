//! `latchkey-git-server`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    latchkey_git_server::run(std::env::args_os())
}
