//! A host that the script runs on, whose kubectl is a stand-in.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latchkey_test_support::{output, skip};
use tempfile::TempDir;

use crate::bootstrap::written::script;

/// What the script needs of a host, besides a shell and kubectl.
const PROGRAMS: [&str; 6] = ["mktemp", "cat", "rm", "date", "sleep", "sh"];
/// What the stand-in needs.
const OF_THE_STAND_IN: [&str; 5] = ["grep", "wc", "sed", "cp", "kill"];
pub(crate) const FLUX: (&str, &str) = ("flux-system.yaml", "kind: Flux\n");
pub(crate) const LINK: (&str, &str) = ("self-link.yaml", "kind: Link\n");

/// A host with an empty cluster behind it.
pub(crate) struct Edge {
    directory: TempDir,
    shell: Vec<&'static str>,
}

impl Edge {
    /// One whose shell is this program, with these arguments; none where it is not installed.
    pub(crate) fn with_shell(shell: &[&'static str]) -> Option<Self> {
        let edge = Self { directory: tempfile::tempdir().unwrap(), shell: shell.to_vec() };
        for name in ["bin", "tmp", "cluster"] {
            fs::create_dir(edge.at(name)).unwrap();
        }
        for program in PROGRAMS.into_iter().chain(OF_THE_STAND_IN) {
            let found = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(program));
            let found = found.into_iter().find(|path| path.exists()).unwrap();
            symlink(found, edge.at("bin").join(program)).unwrap();
        }
        let kubectl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster_manager/bootstrap/stand-in-kubectl");
        symlink(kubectl, edge.at("bin/kubectl")).unwrap();
        if !Path::new(shell[0]).exists() {
            skip(format_args!("there is no {}", shell[0]));
            return None;
        }
        Some(edge)
    }

    pub(crate) fn new() -> Self {
        Self::with_shell(&["/bin/sh"]).unwrap()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Something in the cluster.
    pub(crate) fn set(&self, name: &str, content: &str) {
        fs::write(self.at("cluster").join(name), content).unwrap();
    }

    pub(crate) fn unset(&self, name: &str) {
        fs::remove_file(self.at("cluster").join(name)).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at("cluster").join(name)).ok()
    }

    /// What was asked of kubectl.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.get("calls").unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// At the call of this number, counted from one, this happens.
    pub(crate) fn fault(&self, number: usize, what: &str) {
        let _ = fs::remove_file(self.at("cluster/calls"));
        self.set("faults", &format!("{number} {what}\n"));
    }

    /// Runs a text, as `curl … | sh -` does, but from a file.
    pub(crate) fn run_text(&self, text: &str) -> Output {
        let file = self.at("script.sh");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(self.shell[0]);
        command.args(&self.shell[1..]).arg(&file).env_clear().process_group(0).current_dir(self.directory.path());
        command.env("PATH", self.at("bin")).env("TMPDIR", self.at("tmp")).env("CLUSTER", self.at("cluster"));
        output(command.env("LATCHKEY_LIMIT", "0")).unwrap()
    }

    /// Runs the script, with Flux in it.
    pub(crate) fn run(&self) -> Output {
        self.run_text(script(&[FLUX, LINK]).text())
    }

    /// Runs it; it must end well.
    #[track_caller]
    pub(crate) fn joins(&self) -> String {
        let done = self.run();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}{:#?}", self.calls());
        assert_eq!(said, "");
        self.nothing_is_left();
        String::from_utf8(done.stdout).unwrap()
    }

    /// Runs it; it must fail, and say why.
    #[track_caller]
    pub(crate) fn fails(&self) -> String {
        let done = self.run();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{said}");
        assert!(said.contains("This cluster has not joined: "), "{said}");
        self.nothing_is_left();
        said
    }

    /// Neither files nor the pod and its token.
    #[track_caller]
    pub(crate) fn nothing_is_left(&self) {
        assert_eq!(fs::read_dir(self.at("tmp")).unwrap().count(), 0);
        assert_eq!(self.get("pod"), None, "the pod has the token");
    }
}
