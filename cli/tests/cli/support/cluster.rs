//! A real API server, real kubectl and helm, and charts to install there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latchkey_api_server_rig::{ApiServer, program};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::command::{Ran, latchkey};

/// An operator's directory, and a cluster.
pub struct Cluster {
    pub server: ApiServer,
    pub directory: TempDir,
    pub kubeconfig: String,
    pub kubectl: String,
    pub helm: String,
}

impl Cluster {
    pub fn start() -> Self {
        let server = ApiServer::start();
        let kubeconfig = server.kubeconfig("admin", &server.admin()).display().to_string();
        let text = |name| program(name).display().to_string();
        let directory = TempDir::new().unwrap();
        Self { server, directory, kubeconfig, kubectl: text("kubectl"), helm: text("helm") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The arguments of a command, with the cluster and the programs.
    pub fn arguments<'a>(&'a self, command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = [command, &["--kubeconfig", &self.kubeconfig], more].concat();
        if command[0] == "upgrade" || !["list", "check"].contains(&command[1]) {
            arguments.extend(["--kubectl-program", &self.kubectl]);
        }
        if command[0] != "backup" && !(command[0] == "upgrade" && command[1] != "execute") {
            arguments.extend(["--helm-program", &self.helm]);
        }
        arguments
    }

    pub fn run(&self, command: &[&str], more: &[&str]) -> Ran {
        latchkey(self.directory.path(), &self.arguments(command, more))
    }

    pub fn install(&self, more: &[&str]) -> Ran {
        self.run(&["charts", "install", "--charts", "charts.json"], more)
    }

    pub fn upgrade(&self, more: &[&str]) -> Ran {
        self.run(&["upgrade", "execute", "--helm", "--charts", "charts.json"], more)
    }

    /// Stock helm by hand.
    pub fn helm(&self, arguments: &[&str]) -> String {
        self.by_hand(&self.helm, arguments)
    }

    /// The same, of what must not succeed.
    pub fn helm_fails(&self, arguments: &[&str]) {
        let output = self.output(&self.helm, arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    }

    /// How many backups there are.
    pub fn backups(&self) -> usize {
        fs::read_dir(self.path("latchkey-backups")).map_or(0, Iterator::count)
    }

    /// Stock kubectl by hand.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.by_hand(&self.kubectl, arguments)
    }

    /// Whether kubectl by hand does not do this.
    pub fn kubectl_refuses(&self, arguments: &[&str]) -> bool {
        !self.output(&self.kubectl, arguments).status.success()
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).args(["--kubeconfig", &self.kubeconfig]).env("HOME", self.directory.path());
        latchkey_test_support::output(&mut command).unwrap()
    }

    fn by_hand(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies a document.
    pub fn apply(&self, document: &Value) {
        fs::write(self.path("document.json"), document.to_string()).unwrap();
        let path = self.path("document.json");
        self.kubectl(&["apply", "--server-side", "--field-manager=test", "-f", path.to_str().unwrap()]);
    }

    /// States of a release's revisions, oldest first.
    pub fn history(&self, name: &str) -> Vec<String> {
        let text = self.helm(&["history", name, "--namespace=apps", "--output=json"]);
        let history: Value = serde_json::from_str(&text).unwrap();
        history.as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap().to_owned()).collect()
    }

    /// The value that a chart's `ConfigMap` has.
    pub fn value(&self, name: &str) -> String {
        self.kubectl(&["get", "configmap", name, "--namespace=apps", "--output=jsonpath={.data.key}"])
    }

    /// The charts file: release `name` of the chart in `chart`, with these values, waited for so long.
    pub fn charts(&self, charts: &[(&str, &str, Value, u64)]) {
        let chart = |(name, chart, values, wait): &(&str, &str, Value, u64)| json!({"name": name, "namespace": "apps", "chart": {"directory": chart}, "values": {"inline": values}, "wait": wait});
        let file = json!({"schema": 1, "charts": charts.iter().map(chart).collect::<Vec<_>>()});
        fs::write(self.path("charts.json"), file.to_string()).unwrap();
    }

    /// A chart of one `ConfigMap`, and of a Deployment that no kubelet ever starts if the values say `stuck`.
    pub fn chart(&self, directory: &str, version: &str) {
        write_chart(&self.path(directory), version);
    }
}

/// The chart of [`Cluster::chart`].
pub fn write_chart(chart: &Path, version: &str) {
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: sample\nversion: {version}\n")).unwrap();
    fs::write(chart.join("values.yaml"), "key: of the chart\nstuck: false\n").unwrap();
    let schema = r#"{"type": "object", "properties": {"key": {"type": "string"}}}"#;
    fs::write(chart.join("values.schema.json"), schema).unwrap();
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  key: {{ .Values.key }}\n";
    fs::write(chart.join("templates/config.yaml"), config).unwrap();
    let stuck = "{{ if .Values.stuck }}apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  selector: {matchLabels: {app: stuck}}\n  template:\n    metadata: {labels: {app: stuck}}\n    spec: {containers: [{name: stuck, image: stuck}]}\n{{ end }}";
    fs::write(chart.join("templates/stuck.yaml"), stuck).unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\nstringData:\n  password: hidden {{ .Values.key }}\n";
    fs::write(chart.join("templates/secret.yaml"), secret).unwrap();
}
