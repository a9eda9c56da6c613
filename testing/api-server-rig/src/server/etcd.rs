//! The API server's etcd, and what can happen to it.

use latchkey_test_support::until;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ApiServer;
use tempfile::TempDir;

impl ApiServer {
    /// Ends etcd as a power failure would: the API server listens, and answers nothing that needs its data.
    pub fn kill_etcd(&mut self) {
        self.etcd = None;
    }

    /// Starts it again, with its data.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_etcd(&mut self) {
        self.start_etcd_with(&[]);
    }

    /// A copy of etcd's data as it is now, as a snapshot has it; the API server is away meanwhile.
    ///
    /// # Panics
    /// If it cannot be made, or they do not start again.
    pub fn snapshot_etcd(&mut self) -> TempDir {
        self.kill_api();
        self.kill_etcd();
        let copy = TempDir::with_prefix("latchkey-etcd-").expect("a temporary directory");
        copied(&self.path("etcd"), copy.path()).expect("etcd's files");
        self.start_etcd();
        self.start_api();
        copy
    }

    /// Puts this copy in the place of etcd's data: what was written since is lost. The API server is started anew with it, as its
    /// operator has to.
    ///
    /// # Panics
    /// As [`Self::snapshot_etcd`].
    pub fn restore_etcd(&mut self, copy: &TempDir) {
        self.kill_api();
        self.restore_etcd_beneath(copy);
        self.start_api();
    }

    /// The same beneath an API server that goes on running, as its operator must not do it.
    ///
    /// # Panics
    /// As [`Self::start_etcd`].
    pub fn restore_etcd_beneath(&mut self, copy: &TempDir) {
        self.kill_etcd();
        fs::remove_dir_all(self.path("etcd")).expect("etcd's files");
        copied(copy.path(), &self.path("etcd")).expect("etcd's files");
        self.start_etcd();
    }

    /// A snapshot as an operator takes it, while all goes on.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn save_snapshot(&self) -> PathBuf {
        let snapshot = self.path("snapshot.db");
        let mut etcdctl = self.command("etcdctl", "etcdctl");
        etcdctl
            .arg(format!("--endpoints=http://{}", self.ports.etcd.address()))
            .args(["snapshot", "save"])
            .arg(&snapshot);
        self.done("etcdctl", etcdctl);
        snapshot
    }

    /// Restores it as etcd's documentation says for Kubernetes, with all API servers stopped meanwhile: revisions that were told are
    /// not used again, and watches of before are ended.
    ///
    /// # Panics
    /// If it cannot be restored, or they do not start again.
    pub fn restore_snapshot(&mut self, snapshot: &Path) {
        self.kill_api();
        self.kill_etcd();
        fs::remove_dir_all(self.path("etcd")).expect("etcd's files");
        let peers = self.ports.peers.address();
        let mut etcdutl = self.command("etcdutl", "etcdutl");
        etcdutl.args(["snapshot", "restore"]).arg(snapshot).arg("--data-dir").arg(self.path("etcd"));
        etcdutl.args(["--name=rig", "--bump-revision=1000000000", "--mark-compacted"]);
        etcdutl.arg(format!("--initial-cluster=rig=http://{peers}"));
        etcdutl.arg(format!("--initial-advertise-peer-urls=http://{peers}"));
        self.done("etcdutl", etcdutl);
        self.start_etcd();
        self.start_api();
    }

    /// Runs a program to its good end.
    fn done(&self, name: &str, mut command: Command) {
        let ended = command.status().expect("it can be started");
        assert!(ended.success(), "{name}: {}", self.said(name));
    }

    /// Has it full: from now on it takes no write.
    ///
    /// # Panics
    /// As [`Self::start_etcd`].
    pub fn fill_etcd(&mut self) {
        self.kill_etcd();
        self.start_etcd_with(&["--quota-backend-bytes=1"]);
    }

    /// Gives it room again, as its operator would.
    ///
    /// # Panics
    /// As [`Self::start_etcd`].
    pub fn give_etcd_room(&mut self) {
        self.kill_etcd();
        self.start_etcd();
        let endpoint = format!("--endpoints=http://{}", self.ports.etcd.address());
        until("etcd to be told that it has room", || {
            let mut etcdctl = self.command("etcdctl", "etcdctl");
            etcdctl.args([&endpoint, "alarm", "disarm"]).status().is_ok_and(|ended| ended.success()).then_some(())
        });
    }

    fn start_etcd_with(&mut self, more: &[&str]) {
        let (client, peers) = (self.ports.etcd.address(), self.ports.peers.address());
        let mut command = self.command("etcd", "etcd");
        command.args(["--name", "rig", "--data-dir"]).arg(self.path("etcd"));
        for (option, address) in [
            ("listen-client-urls", client),
            ("advertise-client-urls", client),
            ("listen-peer-urls", peers),
            ("initial-advertise-peer-urls", peers),
        ] {
            command.arg(format!("--{option}=http://{address}"));
        }
        command.arg(format!("--initial-cluster=rig=http://{peers}")).args(more);
        self.etcd = Some(self.run("etcd", command));
    }

    /// Whether these bytes lie in etcd's files as they are.
    ///
    /// # Panics
    /// If its files cannot be read.
    pub fn etcd_holds(&self, bytes: &[u8]) -> bool {
        fn any(directory: &Path, bytes: &[u8]) -> std::io::Result<bool> {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                let held = if path.is_dir() {
                    any(&path, bytes)?
                } else {
                    fs::read(&path)?.windows(bytes.len()).any(|window| window == bytes)
                };
                if held {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        any(&self.path("etcd"), bytes).expect("etcd's files")
    }
}

/// Copies a directory with all that is in it.
fn copied(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copied(&path, &to)?;
        } else {
            fs::copy(&path, &to).map(drop)?;
        }
    }
    Ok(())
}
