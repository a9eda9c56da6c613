//! `latchkey-config-db`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

use latchkey_config_db::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    latchkey_config_db::run(std::env::args_os())
}
