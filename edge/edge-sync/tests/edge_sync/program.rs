//! Edge Sync as a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use latchkey_test_support::{Lines, PATIENCE, Process, spawn, wrong_clock};
use serde_json::json;
use tempfile::TempDir;

use crate::centre::{CLUSTER, REALM, SYNC};
use crate::edge::{Edge, KEYS, NAMESPACE};

/// It runs until it is ended; dropping it kills it.
pub(crate) struct Program {
    process: Process,
    log: Lines,
    _directory: TempDir,
}

impl Program {
    pub(crate) fn start(edge: &Edge, kubeconfig: &Path) -> Self {
        let (command, directory) = command(edge, kubeconfig);
        Self::of(command, directory)
    }

    /// The same on a machine whose clock is off by this, such as `-1h`; none, where libfaketime is missing.
    pub(crate) fn start_off(edge: &Edge, kubeconfig: &Path, off: &str) -> Option<Self> {
        let (mut command, directory) = command(edge, kubeconfig);
        wrong_clock(&mut command, "")?.env("FAKETIME", off);
        Some(Self::of(command, directory))
    }

    fn of(mut command: Command, directory: TempDir) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let (out, log) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        assert_eq!(out.next("that it is ready").as_deref(), Some("READY latchkey-edge-sync"));
        Self { process: Process::watch(child).unwrap(), log, _directory: directory }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// `kill -9`; it is gone when this returns. All lines of its log.
    pub(crate) fn kill(self) -> Vec<String> {
        self.process.kill();
        assert!(self.process.gone());
        let mut seen = Vec::new();
        self.log.rest("the end of the log", &mut seen);
        seen
    }

    pub(crate) fn stop(self) {
        self.process.terminate();
        assert!(self.process.wait(PATIENCE).unwrap().success());
    }
}

fn command(edge: &Edge, kubeconfig: &Path) -> (Command, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = json!({
        "centre": {"directory": edge.centre.directory(), "insecure": true}, "realm": REALM,
        "cluster": {"uuid": CLUSTER, "name": "Bolt"}, "namespace": NAMESPACE,
        "account": {"principal": SYNC, "password_file": edge.centre.password_file()},
        "kubernetes": {"kubeconfig": kubeconfig},
        "sealed_secrets": {"namespace": KEYS},
    });
    let path = directory.path().join("edge-sync.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-edge-sync"));
    command.arg("--config").arg(&path);
    (command, directory)
}
