//! An operator's directory: secrets, policy and reference values made by the real command.

use std::path::{Path, PathBuf};
use std::process::Child;

use tempfile::TempDir;

use super::command::{Ran, finish, start_at};
use super::node::FakeNode;

/// What an operator has at hand.
pub struct Operator(TempDir, Option<&'static str>);

impl Operator {
    /// With a master secret and an init secret.
    pub fn new() -> Self {
        let operator = Self(TempDir::new().unwrap(), None);
        operator.run(&["secret", "new", "master.json"]).succeeded();
        operator.run(&["init-secret", "--out", "init.secret"]).succeeded();
        operator
    }

    /// And a node that knows the init secret, recorded as what is trusted.
    pub fn with_node() -> (Self, FakeNode) {
        let operator = Self::new();
        let node = FakeNode::start(&operator.init_secret());
        operator.record(&node).succeeded();
        (operator, node)
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// From now on the commands' clock begins at `time`; without one it is right. `None`, and a skip, without libfaketime.
    pub fn set_clock(&mut self, time: Option<&'static str>) -> Option<()> {
        self.1 = time;
        latchkey_test_support::wrong_clock(&mut std::process::Command::new("true"), time.unwrap_or_default()).map(drop)
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(start_at(self.1, self.directory(), arguments))
    }

    /// The revision of a manifest.
    pub fn serial(&self, file: &str) -> u64 {
        self.json(file)["serial"].as_u64().unwrap()
    }

    pub fn json(&self, file: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.path(file)).unwrap()).unwrap()
    }

    /// Without the line break.
    pub fn init_secret(&self) -> Vec<u8> {
        std::fs::read(self.path("init.secret")).unwrap().trim_ascii_end().to_vec()
    }

    /// Records what the node runs now as this version, in a manifest that nobody signed.
    pub fn record_version(&self, node: &FakeNode, version: &str, out: &str) -> Ran {
        let (address, ek) = (node.address(), node.ek().to_string());
        let arguments = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", version, "--out", out];
        self.run(&[&arguments[..], &["--machine", "qemu"]].concat()).succeeded()
    }

    pub fn record(&self, node: &FakeNode) -> Ran {
        let (address, ek) = (node.address(), node.ek().to_string());
        self.run(&[
            "record",
            &address,
            "--ek-pin",
            &ek,
            "--name",
            "demo",
            "--version",
            "1.0.0",
            "--out",
            "demo.json",
            "--policy-out",
            "policy.json",
        ])
    }

    pub fn init(&self, node: &FakeNode, more: &[&str]) -> Ran {
        super::command::finish(self.init_started(node, more))
    }

    pub fn init_started(&self, node: &FakeNode, more: &[&str]) -> Child {
        let (address, ek) = (node.address(), node.ek().to_string());
        let mut arguments = vec![
            "init",
            &address,
            "--name",
            "plant",
            "--master-secret",
            "master.json",
            "--policy",
            "policy.json",
            "--reference",
            "demo.json",
            "--timeout",
            "60",
        ];
        if !more.contains(&"--init-secret") {
            arguments.extend(["--init-secret", "init.secret"]);
        }
        if !more.contains(&"--cluster") {
            arguments.extend(["--cluster", "plant"]);
        }
        if !more.contains(&"--ek") && !more.contains(&"--accept-any-ek") {
            arguments.extend(["--ek", &ek]);
        }
        arguments.extend(more);
        start_at(self.1, self.directory(), &arguments)
    }

    /// The policy trusts these machines and no others.
    pub fn trust(&self, nodes: &[&FakeNode]) {
        let pins: Vec<String> = nodes.iter().map(|node| node.ek().to_string()).collect();
        let mut arguments = vec!["policy", "new", "--manifest", "demo", "--unsigned", "--out", "new.json"];
        for pin in &pins {
            arguments.extend(["--ek-pin", pin]);
        }
        self.run(&arguments).succeeded();
        for policy in ["policy.json", "plant/policy.json"].map(|name| self.path(name)) {
            if policy.exists() {
                std::fs::copy(self.path("new.json"), policy).unwrap();
            }
        }
        std::fs::remove_file(self.path("new.json")).unwrap();
    }

    /// What names the new firmware of the node `edge-1`, which waits.
    pub fn firmware_change(&self) -> String {
        let shown = self.run(&["node", "show", "edge-1", "--cluster", "plant"]).succeeded().out;
        shown.lines().find_map(|line| line.strip_prefix("change")).unwrap().trim().to_owned()
    }

    pub fn recover(&self, node: &FakeNode, master: &str, more: &[&str]) -> Ran {
        let address = node.address();
        let arguments = ["recover", &address, "--cluster", "plant", "--master-secret", master];
        self.run(&[&arguments[..], more].concat())
    }

    pub fn verify(&self, node: &FakeNode, more: &[&str]) -> Ran {
        let address = node.address();
        let arguments = ["verify", &address, "--policy", "policy.json", "--reference", "demo.json"];
        self.run(&[&arguments[..], more].concat())
    }
}
