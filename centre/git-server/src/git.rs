//! Stock git as a child: nothing inherited, nothing read but the repository.

use std::ffi::OsStr;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};
use smol::process::{Child, Command, Stdio};

/// Bounds on what git takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitLimits {
    /// The largest pack that is pushed at once, in bytes.
    pub pack: u64,
    /// The largest list of what a client has and wants, in bytes, unpacked.
    pub negotiation: u32,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self { pack: 256 << 20, negotiation: 4 << 20 }
    }
}

/// What is pushed beside the pack: commands, and what goes on arriving after git has refused it.
const BESIDE_PACK: u64 = 1 << 20;

impl GitLimits {
    /// The most bytes of a push's body: twice the pack, so that git itself says what was too large.
    pub fn most_pushed(&self) -> u64 {
        self.pack.saturating_mul(2).saturating_add(BESIDE_PACK)
    }
}

/// Where programs are looked for: git runs its own by their names.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The settings of every run. A repository's own file has none, and no other file is read.
fn settings(limits: GitLimits) -> Vec<(&'static str, String)> {
    let fixed = [
        // Nothing of a repository is ever run.
        ("core.hooksPath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("protocol.allow", "never"),
        // What is pushed is looked at, whole, before a branch points to it, and on the disk when it is acknowledged.
        ("transfer.fsckObjects", "true"),
        ("core.fsync", "all"),
        ("core.fsyncMethod", "fsync"),
        // Memory: one thread, small windows; what is large goes through as a stream.
        ("pack.threads", "1"),
        ("pack.windowMemory", "32m"),
        ("pack.deltaCacheSize", "16m"),
        ("core.deltaBaseCacheLimit", "16m"),
        ("core.packedGitLimit", "64m"),
        ("core.bigFileThreshold", "8m"),
        // Tidying is a part of the push that makes it due: bounded with it, and nothing is left behind in the background.
        ("gc.autoDetach", "false"),
        ("maintenance.autoDetach", "false"),
        ("http.getanyfile", "false"),
        ("http.uploadpack", "true"),
        ("http.receivepack", "true"),
        ("receive.advertisePushOptions", "false"),
        ("safe.bareRepository", "all"),
        ("init.defaultBranch", "main"),
    ];
    let mut all: Vec<_> = fixed.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    all.push(("receive.maxInputSize", limits.pack.to_string()));
    all
}

/// A run of git with `arguments`: in a group of processes of its own, killed when dropped.
pub(crate) fn command(limits: GitLimits, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut std = std::process::Command::new("git");
    std::os::unix::process::CommandExt::process_group(&mut std, 0);
    let mut command = Command::from(std);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("HOME", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    command.env("GIT_HTTP_MAX_REQUEST_BUFFER", limits.negotiation.to_string());
    let settings = settings(limits);
    command.env("GIT_CONFIG_COUNT", settings.len().to_string());
    for (number, (name, value)) in settings.into_iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{number}"), name).env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The same, inside a repository.
pub(crate) fn command_in(limits: GitLimits, repository: &Path, arguments: &[&str]) -> Command {
    let mut command = command(limits, arguments);
    command.current_dir(repository).env("GIT_DIR", repository);
    command
}

/// Ends a run with all that it started. The child must not have been waited for: its number is its own until then.
pub(crate) fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Already gone, then.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use latchkey_test_support::block_on;

    use super::*;

    fn said(arguments: &[&str]) -> String {
        let output = block_on(command(GitLimits::default(), arguments).current_dir("/").output()).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn nothing_is_inherited() {
        let inherited = std::process::Command::new("env").output().unwrap().stdout;
        assert!(inherited.windows(19).any(|name| name == b"CARGO_MANIFEST_DIR="), "there is something that could be");
        let text = said(&["-c", "alias.environment=!env", "environment"]);
        let names: BTreeSet<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        // What the shell and git itself add.
        let added = ["PWD", "OLDPWD", "SHLVL", "_", "GIT_PREFIX", "GIT_CONFIG_PARAMETERS", "GIT_EXEC_PATH"];
        let ours = |name: &&str| {
            let own = ["PATH", "LC_ALL", "HOME", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_NO_REPLACE_OBJECTS"];
            own.contains(name) || name.starts_with("GIT_CONFIG_") || *name == "GIT_HTTP_MAX_REQUEST_BUFFER"
        };
        let others: Vec<_> = names.iter().filter(|name| !ours(name) && !added.contains(name)).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn every_setting_is_ours() {
        let text = said(&["config", "--list", "--show-scope"]);
        assert!(text.lines().count() >= settings(GitLimits::default()).len());
        assert!(text.lines().all(|line| line.starts_with("command\t")), "{text}");
    }
}
