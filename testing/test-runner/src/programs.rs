//! The project's own programs, built before the tests, and their place in a run.

use std::path::Path;

use tempfile::TempDir;

use crate::RunnerError;
use crate::error::at;
use crate::jobs::Job;

/// What a run's directory is called, before its process.
const PREFIX: &str = "test-run-";

/// The directory of a run: programs lie there that no later build replaces. It ends with the run.
#[derive(Debug)]
pub struct Programs(TempDir);

impl Programs {
    /// Builds them. Cargo builds the tests after them: what tests expect in the target directory is theirs in the end.
    ///
    /// # Errors
    /// [`RunnerError::Programs`], [`RunnerError::File`].
    pub fn prepare() -> Result<Self, RunnerError> {
        let target = latchkey_test_programs::target_directory();
        std::fs::create_dir_all(&target).map_err(at(&target))?;
        sweep(&target);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(&target).map_err(at(&target))?;
        eprintln!("building the programs that machines and centres run (minutes, from nothing)");
        latchkey_test_programs::prepare_in(directory.path())?;
        Ok(Self(directory))
    }

    /// Tells a job where they are.
    pub fn give(&self, job: &mut Job) {
        job.command.env(latchkey_test_programs::RUN, Path::new(self.0.path()));
    }
}

/// Removes the directories of runs that were killed.
fn sweep(target: &Path) {
    for entry in std::fs::read_dir(target).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Where that fails, it is in the way of nobody.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_runs_stays() {
        let target = tempfile::tempdir().unwrap();
        let [gone, here, other] =
            [format!("{PREFIX}4999999-x"), format!("{PREFIX}{}-x", std::process::id()), "debug".into()]
                .map(|name| target.path().join(name));
        for directory in [&gone, &here, &other] {
            std::fs::create_dir(directory).unwrap();
        }
        sweep(target.path());
        assert!(!gone.exists() && here.exists() && other.exists());
    }
}
