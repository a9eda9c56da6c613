//! What the operator of a site does, with the real command line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{HarnessError, io_error};
use crate::fleet::{AGENT_PORT, Fleet, MANIFEST};
use crate::process::run;
use crate::publisher::signature;
use crate::service::Service;
use crate::vm::Vm;

/// The directory of the cluster that the site's services serve.
const CLUSTER: &str = "cluster";
/// Half of what `latchkey init` itself would take before it gave up.
const COMMAND: Duration = Duration::from_mins(15);

/// What a command of the operator did.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Fleet {
    /// Runs the operator's command to its end.
    pub fn cli(&self, arguments: &[&str]) -> Result<Outcome, HarnessError> {
        let ran = run(&mut self.command(arguments), COMMAND)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Outcome { code: ran.status.code().unwrap_or(-1), out: text(ran.out), err: text(ran.err) })
    }

    /// Starts the operator's command and leaves it running.
    pub fn cli_in_background(&self, name: &str, arguments: &[&str]) -> Result<Service, HarnessError> {
        Service::spawn(&self.run, name, self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.cli);
        command.args(arguments).env("NO_COLOR", "1").envs(self.path.as_ref().map(|path| ("PATH", path)));
        command
    }

    /// Writes the policy: TPMs of the authority, images that the publisher signed for.
    pub(crate) fn make_policy(&self) -> Result<(), HarnessError> {
        let (out, root, intermediate) = (self.path("policy.json"), self.ek_root(), self.ek_intermediate());
        let arguments =
            ["policy", "new", "--ek-root", &root, "--ek-intermediate", &intermediate, "--ek-template", "ecc-p384"];
        let signer = self.publisher().public();
        let manifest = ["--manifest", MANIFEST, "--signer", &signer, "--out", &out];
        self.cli(&[&arguments[..], &manifest].concat())?.success("policy new")?;
        Ok(())
    }

    /// Has the site's manifest admit another image besides, for two weeks: the one that is in the directory of this name.
    pub fn admit_image_of(&self, directory: &str) -> Result<(), HarnessError> {
        let (base, next) = (self.path("reference.json"), self.path(&format!("{directory}/reference.json")));
        let (key, both) = (self.path("release.key"), self.path("both.json"));
        let add =
            ["reference", "add", &base, &next, "--serial", "2", "--old-until", "14d", "--key", &key, "--out", &both];
        self.cli(&add)?.success("reference add")?;
        let (both, base) = (PathBuf::from(both), PathBuf::from(base));
        for (from, to) in [(signature(&both), signature(&base)), (both, base)] {
            std::fs::rename(&from, &to).map_err(io_error("move", &from))?;
        }
        Ok(())
    }

    /// Trusts the boot of this node: records its measurements as `recorded.json`, and writes `recorded-policy.json`, the
    /// policy that goes with them.
    pub fn record(&self, node: &Vm) -> Result<(), HarnessError> {
        let (address, root, intermediate) = (address(node), self.ek_root(), self.ek_intermediate());
        let (reference, policy) = (self.path("recorded.json"), self.path("recorded-policy.json"));
        let trust = ["record", &address, "--timeout", "10m", "--ek-root", &root, "--ek-intermediate", &intermediate];
        let trust = [&trust[..], &["--ek-template", "ecc-p384"]].concat();
        let image = ["--name", "recorded", "--version", "0.1.0", "--out", &reference, "--policy-out", &policy];
        self.cli(&[&trust[..], &image].concat())?.success("record")?;
        Ok(())
    }

    /// The arguments of `latchkey init` for a node, as the first of the site's cluster.
    pub fn init_arguments(&self, node: &Vm) -> Vec<String> {
        self.init_arguments_in(node, CLUSTER)
    }

    /// The same for a cluster in the directory of this name.
    pub fn init_arguments_in(&self, node: &Vm, cluster: &str) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["init", &address(node), "--name", "test", "--output", "json"].map(Into::into).into();
        let admin = if cluster == CLUSTER { "admin.conf".into() } else { format!("{cluster}.conf") };
        for (flag, file) in [
            ("--cluster", cluster),
            ("--master-secret", "master.json"),
            ("--init-secret", "init.secret"),
            ("--policy", "policy.json"),
            ("--reference", "reference.json"),
            ("--admin-config", &admin),
        ] {
            arguments.extend([flag.to_owned(), self.path(file)]);
        }
        arguments.extend(["--ek".to_owned(), ek(node)]);
        arguments.extend(self.collateral_arguments());
        arguments
    }

    /// Initialises the site's cluster with this node as its first.
    pub fn init(&self, node: &Vm) -> Result<Outcome, HarnessError> {
        self.init_as(node, CLUSTER)
    }

    /// Initialises another cluster.
    pub fn init_as(&self, node: &Vm, cluster: &str) -> Result<Outcome, HarnessError> {
        self.cli(&words(&self.init_arguments_in(node, cluster)))
    }

    /// Lets a machine in that is held, as a worker.
    pub fn admit(&self, node: &Vm) -> Result<Outcome, HarnessError> {
        self.admit_as(node, "worker")
    }

    /// The same in another role.
    pub fn admit_as(&self, node: &Vm, role: &str) -> Result<Outcome, HarnessError> {
        let (ek, cluster) = (ek(node), self.path(CLUSTER));
        self.cli(&["node", "admit", &ek, "--role", role, "--cluster", &cluster, "--output", "json"])
    }

    /// Where the cluster's directory keeps the record of a machine.
    pub fn record_path(&self, node: &Vm) -> PathBuf {
        Path::new(&self.path(CLUSTER)).join("nodes").join(format!("{}.json", ek(node)))
    }

    /// Removes a machine from the cluster.
    pub fn remove(&self, node: &str) -> Result<Outcome, HarnessError> {
        self.cli(&["node", "remove", node, "--cluster", &self.path(CLUSTER), "--output", "json"])
    }

    /// Pushes the key of a node's disk.
    pub fn recover(&self, node: &Vm, master: &str) -> Result<Outcome, HarnessError> {
        self.recover_with(node, master, &[])
    }

    /// The same for a cluster that is kept in its API server, which does not run: the operator says which machine this is.
    pub fn recover_by_directory(&self, node: &Vm, master: &str) -> Result<Outcome, HarnessError> {
        self.recover_with(node, master, &["--by-directory", "--ek", &ek(node)])
    }

    fn recover_with(&self, node: &Vm, master: &str, more: &[&str]) -> Result<Outcome, HarnessError> {
        let (address, cluster, policy) = (address(node), self.path(CLUSTER), self.path("policy.json"));
        let reference = self.path("reference.json");
        let node = ["recover", &address, "--cluster", &cluster, "--master-secret", master];
        let trust = ["--policy", &policy, "--reference", &reference, "--timeout", "10m", "--output", "json"];
        let collateral = self.collateral_arguments();
        self.cli(&[&node[..], &trust, &words(&collateral), more].concat())
    }

    /// By what the operator's commands verify processors' reports.
    pub(crate) fn collateral_arguments(&self) -> Vec<String> {
        let named = self.collateral.iter().map(|directory| directory.display().to_string());
        named.flat_map(|directory| ["--collateral".to_owned(), directory]).collect()
    }
}

impl Outcome {
    /// Itself, if the command succeeded.
    pub fn success(self, what: &str) -> Result<Self, HarnessError> {
        if self.code == 0 {
            return Ok(self);
        }
        let output = format!("status {}\n{}{}", self.code, self.out, self.err);
        Err(HarnessError::Command { command: format!("latchkey {what}"), output })
    }

    /// Standard output as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or(Value::Null)
    }
}

/// Arguments as commands take them.
pub fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The digest of the node's endorsement key, from its console, where an operator would read it; empty if it did not say it yet.
pub fn ek(node: &Vm) -> String {
    node.console().value("certificate, sha256 ").unwrap_or_default()
}

/// Where the node's agent is reached, as text for a command line.
pub fn address(node: &Vm) -> String {
    node.address(AGENT_PORT).map(|address| address.to_string()).unwrap_or_default()
}
