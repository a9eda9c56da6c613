//! From the command line to an exit code, the same in every service of a centre.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use latchkey_service_runtime::binary::Binary;
use latchkey_service_runtime::program::ProgramError;

/// A service as a program.
#[derive(Debug, Clone, Copy)]
pub struct Program<P> {
    /// The program's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it does, in a sentence or two.
    pub about: &'static str,
    /// Reads and checks everything that the configuration names, and opens nothing.
    pub load: fn(&Path) -> Result<P, ProgramError>,
    /// What it would do, one line for each thing, for `--check`.
    pub describe: fn(&P) -> String,
    /// Serves until it is told to stop.
    pub serve: fn(P) -> Result<(), ProgramError>,
}

const RUNNING: &str = "Prints a line that begins with READY once it listens.
SIGTERM and SIGINT stop it; running calls are finished first. SIGHUP reads its
certificate again.
";

impl<P> Program<P> {
    /// Runs it. `arguments` begin with the program's name.
    pub fn run(&self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let Self { name, version, about, load, describe, serve } = *self;
        Binary { name, version, about, running: RUNNING, load, describe, serve }.run(arguments)
    }
}
