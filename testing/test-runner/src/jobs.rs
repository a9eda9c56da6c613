//! What is run in one process: an executable, or one module of it.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::RunnerError;
use crate::error::at;
use crate::executables::{Executable, MACHINES, Selection};

/// With these an executable runs tests that are ignored otherwise.
const IGNORED: [&str; 2] = ["--ignored", "--include-ignored"];

/// A process to come.
#[derive(Debug)]
pub struct Job {
    /// What reports call it: `attestation`, `machines::life`.
    pub name: String,
    /// Whether it is of the queue of machines.
    pub machines: bool,
    /// How many tests it has, those that are ignored left out.
    pub tests: usize,
    /// How it is started; without streams.
    pub command: Command,
}

impl Job {
    /// The examples in documentation: rustdoc compiles and runs them.
    pub fn documentation() -> Self {
        let mut command = latchkey_test_support::cargo();
        command.args(["test", "--workspace", "--doc"]);
        Self { name: "documentation".into(), machines: false, tests: 0, command }
    }
}

/// The jobs of these executables, called with these arguments. One without a test that is run is none.
///
/// # Errors
/// [`RunnerError::List`], [`RunnerError::File`].
pub fn of(executables: &[Executable], selection: &Selection, arguments: &[String]) -> Result<Vec<Job>, RunnerError> {
    let mut jobs = Vec::new();
    for executable in executables {
        let modules = selection.modules(executable);
        let listed = list(executable, arguments)?;
        let selected = |name: &&String| modules.as_ref().is_none_or(|all| all.iter().any(|one| is_in(name, one)));
        let names: Vec<_> = listed.iter().filter(selected).collect();
        if names.is_empty() {
            continue;
        }
        if executable.package == MACHINES && !executable.is_unit() {
            let mut parts: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
            for name in names {
                parts.entry(name.split("::").next().unwrap_or_default()).or_default().push(name);
            }
            jobs.extend(parts.into_iter().map(|(module, names)| {
                let name = format!("{}::{module}", executable.name);
                job(name, executable, &names, true, arguments)
            }));
        } else {
            // By their names only if not all are meant: a command line has its bounds.
            let chosen = if names.len() == listed.len() { &[][..] } else { &names };
            let mut job = job(executable.name.clone(), executable, chosen, false, arguments);
            job.tests = names.len();
            jobs.push(job);
        }
    }
    Ok(jobs)
}

fn job(name: String, executable: &Executable, names: &[&String], machines: bool, arguments: &[String]) -> Job {
    let mut command = start(executable);
    if names.is_empty() {
        command.args(arguments);
    } else {
        command.args(arguments.iter().filter(|argument| argument.starts_with('-')));
        command.arg("--exact").args(names);
    }
    Job { name, machines, tests: names.len(), command }
}

/// Whether a test is of a module, or is it.
fn is_in(name: &str, module: &str) -> bool {
    name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// As cargo starts it.
fn start(executable: &Executable) -> Command {
    let mut command = Command::new(&executable.path);
    command.current_dir(&executable.directory);
    command.env("CARGO_MANIFEST_DIR", &executable.directory).env("CARGO_PKG_NAME", &executable.package);
    if std::env::var_os("CARGO").is_none() {
        command.env("CARGO", "cargo");
    }
    command
}

/// What its tests are called that are run with these arguments.
fn list(executable: &Executable, arguments: &[String]) -> Result<Vec<String>, RunnerError> {
    let mut names = listed(executable, arguments, &[])?;
    if !arguments.iter().any(|argument| IGNORED.contains(&argument.as_str())) {
        // The list has those that are ignored, too.
        let ignored = listed(executable, arguments, &IGNORED[..1])?;
        names.retain(|name| !ignored.contains(name));
    }
    Ok(names)
}

fn listed(executable: &Executable, arguments: &[String], more: &[&str]) -> Result<Vec<String>, RunnerError> {
    let mut command = start(executable);
    command.args(["--list", "--format", "terse"]).args(arguments).args(more).stdin(Stdio::null());
    let output = command.output().map_err(at(&executable.path))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
        return Err(RunnerError::List { path: executable.path.clone(), said });
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let names = said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn a_module_is_not_another_one_that_begins_alike() {
        assert!(is_in("life::a_node_joins", "life") && is_in("life::deep::x", "life::deep") && is_in("life", "life"));
        assert!(!is_in("lifetime::x", "life") && !is_in("x::life", "life"));
    }
}
