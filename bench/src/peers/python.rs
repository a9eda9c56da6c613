//! Peers from the Python package index, in a virtual environment of their own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_bench::Figure;

/// A virtual environment with the peers in it.
pub(crate) struct Python {
    program: PathBuf,
    scripts: PathBuf,
}

impl Python {
    /// Makes the environment, unless an earlier run has. Or says why there is none.
    pub(crate) fn prepare(sources: &Path, target: &Path) -> Result<Self, String> {
        let scripts = sources.join("bench/peers");
        let (list, folder) = (scripts.join("requirements.txt"), target.join("bench-peers"));
        let (program, done) = (folder.join("bin/python3"), folder.join("requirements.txt"));
        let wanted = fs::read(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        if fs::read(&done).ok().as_ref() != Some(&wanted) {
            eprintln!("installing the peers from PyPI into {}", folder.display());
            succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
            succeed(Command::new(&program).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&list))?;
            fs::write(&done, wanted).map_err(|error| format!("{}: {error}", done.display()))?;
        }
        Ok(Self { program, scripts })
    }

    /// Runs a script and reads its figures.
    pub(crate) fn run(&self, script: &str, arguments: &[&OsStr]) -> Result<Vec<Figure>, String> {
        let mut command = Command::new(&self.program);
        let command = command.arg(self.scripts.join(script)).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{script} failed: {}", errors.lines().last().unwrap_or_default()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Figure::from_line).collect())
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", errors.lines().last().unwrap_or_default()))
}
