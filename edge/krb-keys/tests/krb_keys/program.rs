//! `krb-keys run` as a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_kdc_rig::REALM;
use latchkey_test_support::{Lines, Process, spawn};
use serde_json::json;

use crate::edge::{Edge, NAMESPACE, OWN};

/// It runs until it is ended; dropping it kills it.
pub(crate) struct Program {
    process: Process,
    log: Lines,
    seen: Vec<String>,
}

impl Program {
    /// On these ways to the API server and to the KDC.
    pub(crate) fn start(edge: &Edge, kubeconfig: &Path, krb5_config: &Path) -> Self {
        let config = json!({
            "centre": {"directory": "http://127.0.0.1:1", "insecure": true}, "realm": REALM,
            "cluster": {"uuid": "c1c1c1c1-c1c1-41c1-81c1-c1c1c1c1c1c1", "name": "Bolt"}, "namespace": NAMESPACE,
            "kubernetes": {"kubeconfig": kubeconfig}, "krb5_config": krb5_config, "kerberos_helper": helper(),
            "keytab": edge.keytab, "principal": format!("{OWN}@{REALM}"),
        });
        let path = edge.kdc.path("krb-keys.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_krb-keys"));
        command.arg("run").arg("--config").arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let (out, log) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        assert_eq!(out.next("that it is ready").as_deref(), Some("READY krb-keys"));
        Self { process: Process::watch(child).unwrap(), log, seen: Vec::new() }
    }

    /// `kill -9`; it is gone when this returns.
    pub(crate) fn kill(self) {
        self.process.kill();
        assert!(self.process.gone());
    }

    /// Waits for a line of its log with these words.
    pub(crate) fn says(&mut self, words: &[&str]) {
        let found = |line: &str| words.iter().all(|word| line.contains(word));
        let what = format!("a line with {words:?}");
        assert!(self.log.find(&what, &mut self.seen, found).is_some(), "{what}: {:?}", self.seen);
    }
}

fn helper() -> PathBuf {
    latchkey_test_programs::of_package("latchkey-kerberos-helper", "latchkey-kerberos-helper").unwrap()
}
