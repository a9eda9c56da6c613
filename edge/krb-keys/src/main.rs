//! `krb-keys`: see the library for everything, and `--help` for the rest.

use std::process::ExitCode;

use latchkey_wiping_allocator::WipingAllocator;

/// Passwords and keys pass through buffers of libraries: every block is wiped before it is given back.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator::new();

fn main() -> ExitCode {
    latchkey_krb_keys::run(std::env::args_os())
}
