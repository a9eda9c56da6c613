//! One call of cargo, and where its programs are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchkey_test_support::{cargo, finish_within};
use serde::{Deserialize, Serialize};

use crate::error::{BuildError, failed_to};
use crate::{target_directory, workspace};

/// The agent and all it stands on, from nothing, on a busy machine; or waiting for another cargo that has the target
/// directory, which is what it says then.
pub(crate) const COMPILE: Duration = Duration::from_mins(30);
/// The directory of a whole run of tests, as the test runner tells it: there programs lie that no later build replaces.
pub const RUN: &str = "LATCHKEY_TEST_RUN";
/// The list of a set's programs, beside them.
const LIST: &str = "programs.json";

/// Programs that are built in one go.
#[derive(Debug)]
pub(crate) struct Set {
    /// What it is called, among all sets.
    pub(crate) name: String,
    /// What cargo is called with.
    pub(crate) arguments: Vec<&'static str>,
    /// Whether cargo's progress is shown, on standard error.
    pub(crate) shown: bool,
    /// What cargo is called with afterwards, since these are other programs in the place of those that tests expect there.
    pub(crate) instead_of: Option<Vec<&'static str>>,
}

/// Name and path of each program that was built.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Built(pub(crate) Vec<(String, PathBuf)>);

impl Built {
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf, BuildError> {
        let program = self.0.iter().find(|(there, _)| there == name);
        let path = program.map(|(_, path)| path).ok_or_else(|| BuildError::NotBuilt(name.to_owned()))?;
        path.canonicalize().map_err(failed_to("find", path))
    }

    pub(crate) fn paths(self) -> Vec<PathBuf> {
        self.0.into_iter().map(|(_, path)| path).collect()
    }
}

impl Set {
    /// The programs, built once in this process, and once in a run.
    pub(crate) fn built(&self) -> Result<Built, BuildError> {
        static BUILT: Mutex<BTreeMap<String, Arc<Mutex<Option<Built>>>>> = Mutex::new(BTreeMap::new());
        let mut all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Arc::clone(all.entry(self.name.clone()).or_default());
        drop(all);
        // Others wait for this set alone.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = place.as_ref() {
            return Ok(built.clone());
        }
        let built = match (std::env::var_os(RUN), &self.instead_of) {
            (Some(run), _) => self.kept_in(Path::new(&run), true)?,
            (None, None) => cargo_build(&self.arguments, self.shown)?,
            (None, Some(_)) => self.kept_in(&target_directory().join("test-programs"), false)?,
        };
        Ok(place.insert(built).clone())
    }

    /// Copies in a directory. Whoever comes second waits, and takes those that are there if they are of the same run: `once`.
    pub(crate) fn kept_in(&self, directory: &Path, once: bool) -> Result<Built, BuildError> {
        let place = directory.join(&self.name);
        fs::create_dir_all(&place).map_err(failed_to("make", &place))?;
        let lock = File::create(place.join("lock")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(failed_to("lock", &place))?;
        let list = place.join(LIST);
        if once && let Ok(text) = fs::read(&list) {
            return serde_json::from_slice(&text).map_err(|error| BuildError::NotBuilt(error.to_string()));
        }
        let built = cargo_build(&self.arguments, self.shown)?;
        let copies =
            Built(built.0.into_iter().map(|(name, path)| copied(&place, name, &path)).collect::<Result<_, _>>()?);
        if let Some(arguments) = &self.instead_of {
            cargo_build(arguments, self.shown)?;
        }
        // The list is last: it is there when they are.
        let text = serde_json::to_vec(&copies).map_err(|error| BuildError::NotBuilt(error.to_string()))?;
        fs::write(&list, text).map_err(failed_to("write", &list))?;
        Ok(copies)
    }
}

/// What runs is not written to: another process may have the one before.
fn copied(place: &Path, name: String, path: &Path) -> Result<(String, PathBuf), BuildError> {
    let file = path.file_name().unwrap_or(name.as_ref());
    let (copy, new) = (place.join(file), place.join(format!("{name}.new")));
    fs::copy(path, &new).and_then(|_| fs::rename(&new, &copy)).map_err(failed_to("copy", path))?;
    Ok((name, copy))
}

pub(crate) fn cargo_build(arguments: &[&str], shown: bool) -> Result<Built, BuildError> {
    let mut command = cargo();
    command.current_dir(workspace()).args(["build", "--message-format", "json-render-diagnostics"]).args(arguments);
    // Lines, and no bar: two of them may be shown at a time.
    command.env("CARGO_TERM_PROGRESS_WHEN", "never").stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(if shown { Stdio::inherit() } else { Stdio::piped() });
    let child = command.spawn().map_err(failed_to("start", Path::new("cargo")))?;
    let built = finish_within(COMPILE, "cargo build", child);
    if !built.status.success() {
        let output = String::from_utf8_lossy(&built.stderr).into_owned();
        return Err(BuildError::Failed { command: format!("cargo build {}", arguments.join(" ")), output });
    }
    let messages = built.stdout.split(|byte| *byte == b'\n');
    let artifacts = messages.filter_map(|line| serde_json::from_slice::<Artifact>(line).ok());
    Ok(Built(artifacts.filter_map(Artifact::program).collect()))
}

/// The part of cargo's message "compiler-artifact" that says where a program is.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Artifact {
    /// A program, or a library that another program loads.
    fn program(self) -> Option<(String, PathBuf)> {
        let loaded = (self.target.kind == ["cdylib"]).then(|| self.filenames.into_iter().next());
        self.executable.or(loaded.flatten()).map(|path| (self.target.name, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_a_library_that_is_loaded_are_found_in_what_cargo_says() {
        let read = |text: &str| serde_json::from_str::<Artifact>(text).unwrap().program();
        let program = r#"{"target": {"name": "a", "kind": ["bin"]}, "executable": "/t/a", "filenames": ["/t/a"]}"#;
        let plugin =
            r#"{"target": {"name": "p", "kind": ["cdylib"]}, "executable": null, "filenames": ["/t/libp.so"]}"#;
        let library =
            r#"{"target": {"name": "l", "kind": ["lib"]}, "executable": null, "filenames": ["/t/libl.rlib"]}"#;
        assert_eq!(read(program), Some(("a".to_owned(), "/t/a".into())));
        assert_eq!(read(plugin), Some(("p".to_owned(), "/t/libp.so".into())));
        assert_eq!(read(library), None);
    }

    #[test]
    fn a_copy_keeps_the_name_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libp.so");
        fs::write(&path, "x").unwrap();
        let place = directory.path().join("place");
        fs::create_dir(&place).unwrap();
        let (name, copy) = copied(&place, "p".into(), &path).unwrap();
        assert_eq!((name.as_str(), copy), ("p", place.join("libp.so")));
    }
}
