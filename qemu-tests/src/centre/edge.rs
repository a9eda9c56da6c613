//! An edge of a centre: a namespace of a real API server, and the programs that run in it, as plain processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latchkey_centre_site::Program;
use latchkey_factory_plus_client::BaseUrl;
use latchkey_test_support::{Lines, spawn};
use serde_json::{Value, json};

use super::Centre;
use crate::error::{HarnessError, io_error};
use crate::process::{Finished, Process, TOOL, run};

/// What the centre gives an edge for its bootstrap.
const MANIFESTS: &str = include_str!("../../../crates/centre-setup/data/templates/bootstrap/edge-bootstrap.json");

/// A cluster's edge: where its programs find everything.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The cluster's UUID.
    pub cluster: String,
    /// Its name.
    pub name: String,
    /// Its namespace at the API server.
    pub namespace: String,
    /// Who the programs are there.
    pub kubeconfig: PathBuf,
}

impl Edge {
    /// What a bootstrap pod has in a namespace: its role, bound to a user of this name, and the Secrets that it fills; each with
    /// the path that it is made at.
    pub fn rights(namespace: &str, user: &str) -> Vec<(String, Value)> {
        let text = MANIFESTS.replace("{{namespace}}", namespace);
        let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let placed = |mut object: Value| {
            let path = match object["kind"].as_str()? {
                "Role" => format!("{rbac}/roles"),
                "RoleBinding" => {
                    object["subjects"] =
                        json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }]);
                    format!("{rbac}/rolebindings")
                }
                // The one with the token is a file here.
                "Secret" if object["stringData"].is_null() => format!("/api/v1/namespaces/{namespace}/secrets"),
                _ => return None,
            };
            Some((path, object))
        };
        all.into_iter().filter_map(placed).collect()
    }
}

impl Centre {
    /// The token of a new bootstrap link.
    pub fn link_token(&self, name: &str) -> Result<String, HarnessError> {
        let made = self.reported(&["command", name])?;
        let token = made["url"].as_str().and_then(|url| url.rsplit_once('/')).map(|(_, token)| token.to_owned());
        token.ok_or_else(|| HarnessError::Unusable(format!("no link was made: {made}")))
    }

    /// `krb5.conf` as the manifests and the chart give it to an edge: timestamps, by which who listens can guess passwords, are not
    /// taken.
    fn edge_krb5_conf(&self) -> Result<PathBuf, HarnessError> {
        let path = self.layout.krb5_conf();
        let text = std::fs::read_to_string(&path).map_err(io_error("read", &path))?;
        let realm = "kpasswd_server =";
        if !text.contains(realm) {
            return Err(HarnessError::Unusable(format!("{} has no realm: {text}", path.display())));
        }
        self.run.write(
            "edge-krb5.conf",
            text.replacen(realm, &format!("disable_encrypted_timestamp = true\n        {realm}"), 1),
        )
    }

    /// `krb-keys redeem` of an edge, with this token.
    pub fn redeeming(&self, edge: &Edge, token: &str) -> Result<Command, HarnessError> {
        let manager: &BaseUrl = &self.parameters.place(Program::ClusterManager).url;
        let token = self.write_secret(&format!("{}.token", edge.namespace), token)?;
        let redeem = json!({ "manager": manager.to_string(), "token_file": token, "patience_seconds": 20 });
        let more = json!({ "krb5_config": self.edge_krb5_conf()?, "redeem": redeem });
        self.program(edge, &["krb-keys", "redeem"], more)
    }

    /// `krb-keys run` of an edge, with the files that a kubelet would mount.
    pub fn keeping(&self, edge: &Edge, keytab: &Path, password: &Path) -> Result<Command, HarnessError> {
        let account = self.account(edge, "krbkeys", password);
        let more = json!({ "krb5_config": self.edge_krb5_conf()?, "keytab": keytab, "account": account });
        self.program(edge, &["krb-keys", "run"], more)
    }

    /// `latchkey-edge-monitor` of an edge, with the password that a kubelet would mount.
    pub fn monitoring(&self, edge: &Edge, password: &Path) -> Result<Command, HarnessError> {
        let account = self.account(edge, "monitor", password);
        self.program(edge, &["latchkey-edge-monitor"], json!({ "account": account }))
    }

    /// `latchkey-edge-sync` of an edge, in the same way.
    pub fn syncing(&self, edge: &Edge, password: &Path) -> Result<Command, HarnessError> {
        self.program(edge, &["latchkey-edge-sync"], json!({ "account": self.account(edge, "sync", password) }))
    }

    fn account(&self, edge: &Edge, role: &str, password: &Path) -> Value {
        json!({ "principal": self.upn(&format!("op1{role}/{}", edge.name)), "password_file": password })
    }

    /// A program with its words, and a configuration of what every program of an edge is told, and more.
    fn program(&self, edge: &Edge, words: &[&str], mut config: Value) -> Result<Command, HarnessError> {
        let directory: &BaseUrl = &self.parameters.place(Program::Directory).url;
        config["centre"] = json!({ "directory": directory.to_string(), "authority": self.layout.authority() });
        config["realm"] = json!(self.parameters.realm);
        config["cluster"] = json!({ "uuid": edge.cluster, "name": edge.name });
        config["namespace"] = json!(edge.namespace);
        config["kubernetes"] = json!({ "kubeconfig": edge.kubeconfig });
        let file = format!("{}-{}.json", edge.namespace, words.join("-"));
        let file = self.run.write(&file, config.to_string())?;
        let mut command = Command::new(self.programs().join(words.first().copied().unwrap_or_default()));
        command.args(words.get(1..).unwrap_or_default()).arg("--config").arg(file).env_clear();
        Ok(command)
    }

    /// Runs it to its end: how it ended, and how long it took.
    pub fn redeem(&self, edge: &Edge, token: &str) -> Result<(Finished, Duration), HarnessError> {
        let mut command = self.redeeming(edge, token)?;
        let begin = Instant::now();
        let finished = run(&mut command, TOOL)?;
        Ok((finished, begin.elapsed()))
    }

    /// Runs it, and kills it (`SIGKILL`) as soon as it has said so many lines; whether it was alive until then.
    pub fn redeem_killed(&self, edge: &Edge, token: &str, lines: usize) -> Result<bool, HarnessError> {
        let mut command = self.redeeming(edge, token)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).map_err(io_error("start", "krb-keys".as_ref()))?;
        let said = child.stderr.take().map(Lines::of);
        let process = Process::watch(child).map_err(io_error("watch", "krb-keys".as_ref()))?;
        let alive = said.is_some_and(|said| (0..lines).all(|_| said.next("a line of krb-keys").is_some()));
        // Dropping kills it.
        drop(process);
        Ok(alive)
    }
}
