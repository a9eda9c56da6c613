//! Repositories from and to bundles, by stock git: nothing inherited, no file of settings read, nothing of a repository run.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::centre::programs::Stock;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;

/// As the git server runs git, with bundles as the one thing that is fetched from.
const SETTINGS: [(&str, &str); 8] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("transfer.fsckObjects", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.bareRepository", "all"),
];

/// What became of a repository that was to be put into a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bundled {
    /// All branches and tags of one moment, with what they lead to.
    Whole,
    /// It has none.
    Empty,
    /// It was deleted meanwhile.
    Gone,
}

/// Writes a bundle. Pushes may go on: git lists the branches first, and what they lead to stays.
pub(super) fn bundle(repository: &Path, to: &Path) -> Result<Bundled, CommandError> {
    let made =
        git(repository, [OsStr::new("bundle"), "create".as_ref(), "--quiet".as_ref(), to.as_ref(), "--all".as_ref()])?;
    if made.status.success() {
        return Ok(Bundled::Whole);
    }
    if !repository.join("HEAD").exists() {
        return Ok(Bundled::Gone);
    }
    // git makes no bundle of nothing.
    let branches = git(repository, ["for-each-ref", "--count=1"])?;
    if branches.status.success() && branches.stdout.is_empty() {
        Ok(Bundled::Empty)
    } else {
        Err(failed(repository, &made))
    }
}

/// Makes an empty repository, as the git server does.
pub(super) fn make(repository: &Path) -> Result<(), CommandError> {
    fs::create_dir(repository).map_err(|error| files::unwritable(repository, &error))?;
    let arguments = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--object-format=sha1"];
    done(repository, &git(repository, arguments)?)
}

/// Fills an empty repository from a bundle. git checks every object.
pub(super) fn unbundle(repository: &Path, bundle: &Path) -> Result<(), CommandError> {
    let arguments = ["fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--update-head-ok", "--"];
    let arguments = arguments.iter().map(OsStr::new).chain([bundle.as_os_str(), "refs/*:refs/*".as_ref()]);
    done(repository, &git(repository, arguments)?)
}

fn git(repository: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output, CommandError> {
    let program = Stock::Git.path()?;
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("HOME", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    command.env("GIT_DIR", repository).env("GIT_CONFIG_COUNT", SETTINGS.len().to_string());
    for (number, (name, value)) in SETTINGS.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{number}"), name).env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    // In the root, where no repository of another owner is looked for.
    command.args(arguments).current_dir("/").output().map_err(|error| {
        CommandError::local(CommandCode::RepositoryUnusable, "git cannot be started").because(error.to_string())
    })
}

fn done(repository: &Path, output: &Output) -> Result<(), CommandError> {
    if output.status.success() { Ok(()) } else { Err(failed(repository, output)) }
}

fn failed(repository: &Path, output: &Output) -> CommandError {
    CommandError::local(CommandCode::RepositoryUnusable, format!("git failed about {}", repository.display()))
        .because(String::from_utf8_lossy(&output.stderr).trim().chars().take(1000).collect::<String>())
}
