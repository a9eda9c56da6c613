//! Peers from the Python package index, in a virtual environment of their own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latchkey_bench::Figure;

use crate::child;

/// A virtual environment with the peers in it.
pub(crate) struct Python {
    program: PathBuf,
    scripts: PathBuf,
}

impl Python {
    /// Makes the environment, unless an earlier run has. Or says why there is none.
    pub(crate) fn prepare(sources: &Path, target: &Path) -> Result<Self, String> {
        let scripts = sources.join("testing/bench/peers");
        let (list, directory) = (scripts.join("requirements.txt"), target.join("bench-peers"));
        let (program, done) = (directory.join("bin/python3"), directory.join("requirements.txt"));
        let wanted = fs::read(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        if fs::read(&done).ok().as_ref() != Some(&wanted) {
            eprintln!("installing the peers from PyPI into {}", directory.display());
            succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
            succeed(Command::new(&program).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&list))?;
            fs::write(&done, wanted).map_err(|error| format!("{}: {error}", done.display()))?;
        }
        Ok(Self { program, scripts })
    }

    /// A program that a package brought.
    pub(crate) fn installed(&self, name: &str) -> PathBuf {
        self.program.with_file_name(name)
    }

    /// Runs a script and reads its figures.
    pub(crate) fn run(&self, script: &str, arguments: &[&OsStr]) -> Result<Vec<Figure>, String> {
        let mut command = Command::new(&self.program);
        command.arg(self.scripts.join(script)).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut figures = Vec::new();
        let status = child::run(&mut command, RUN, |line| figures.extend(Figure::from_line(line)))?;
        if status.success() { Ok(figures) } else { Err(format!("{script} failed: see above")) }
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = child::run(command, INSTALL, |_| ())?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: see above", command.get_program().display())) }
}

/// A script measures for seconds.
const RUN: Duration = Duration::from_mins(5);
/// Downloading the packages.
const INSTALL: Duration = Duration::from_mins(30);
