//! From the command line to an exit code, the same in every program that takes `--config FILE` and `--check`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::program::{self, Command, ProgramError, print};

/// A service as a program.
#[derive(Debug, Clone, Copy)]
pub struct Binary<P> {
    /// The program's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it does, in a sentence or two.
    pub about: &'static str,
    /// What `--help` says below the options: when it is ready, and what signals do.
    pub running: &'static str,
    /// Reads and checks everything that the configuration names, and opens nothing.
    pub load: fn(&Path) -> Result<P, ProgramError>,
    /// What it would do, one line for each thing, for `--check`.
    pub describe: fn(&P) -> String,
    /// Works until it is told to stop.
    pub serve: fn(P) -> Result<(), ProgramError>,
}

const USAGE: &str = "
  --config FILE   the configuration, JSON; an example beside the program's source shows
                  every field
  --check         read and check everything the service needs, say what it would
                  do, and exit without doing it
  --log FORMAT    how the log on stderr is written: text (the default), or json, one
                  object per line
  --version       print the version
  --help          print this

Exit codes: 0 stopped as asked, or checked and good; 1 failed while running;
2 wrong arguments, or a configuration that cannot be used.
";

impl<P> Binary<P> {
    /// Runs it. `arguments` begin with the program's name.
    pub fn run(&self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let outcome = match program::parse(arguments.into_iter().skip(1), &["check"], &[]) {
            Ok(Command::Help) => print(&format!(
                "{} --config FILE [--log text|json | --check]\n\n{}\n{USAGE}{}",
                self.name, self.about, self.running
            )),
            Ok(Command::Version) => print(&format!("{} {}\n", self.name, self.version)),
            Ok(Command::Serve(file, format)) => program::serve(format, || (self.serve)((self.load)(&file)?)),
            Ok(Command::With(file, _) | Command::Do(_, file)) => (self.load)(&file).and_then(|prepared| {
                print(&format!("The configuration is good. The service would\n{}", (self.describe)(&prepared)))
            }),
            Err(sentence) => Err(ProgramError::unusable(sentence)),
        };
        program::exit(self.name, outcome)
    }
}
