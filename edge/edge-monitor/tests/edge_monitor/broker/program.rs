//! A monitor as a process of its own, with the rights that the chart gives it or fewer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use latchkey_api_server_rig::ApiServer;
use latchkey_test_support::{Lines, PATIENCE, Process, spawn, until, wrong_clock};
use serde_json::{Value, json};

use crate::broker::rig::{Broker, FakeCentre, MONITOR};
use crate::broker::{Site, identity};

const USER: &str = "edge-monitor";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/fplus-edge/roles";
const NUMBER: &str = "/api/v1/namespaces/fplus-edge/configmaps/edge-monitor";

/// It runs until it is ended; dropping it kills it.
pub(crate) struct Program {
    process: Process,
    log: Lines,
}

impl Site {
    pub(crate) fn centre(tokens_end_in: Duration) -> FakeCentre {
        FakeCentre::start(identity("ACME-Bolt").account.to_string(), tokens_end_in)
    }

    pub(crate) fn program(&self, centre: &FakeCentre) -> Program {
        Program::of(command(&self.broker, &self.api, centre))
    }

    /// The same on a machine whose clock is off by this, such as `-1h`; none, where libfaketime is missing.
    pub(crate) fn program_off(&self, centre: &FakeCentre, off: &str) -> Option<Program> {
        let mut command = command(&self.broker, &self.api, centre);
        wrong_clock(&mut command, "")?.env("FAKETIME", off);
        Some(Program::of(command))
    }

    /// It may do this to the number, and nothing else. Returns when that is so.
    pub(crate) fn grant(&self, verbs: &[&str]) {
        let admin = self.api.client(&self.api.admin());
        let mut rules = vec![json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]})];
        // A rule without verbs is none.
        if !verbs.is_empty() {
            let number = ["edge-monitor"];
            rules
                .push(json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": number, "verbs": verbs}));
        }
        let api = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": api, "kind": "Role", "metadata": {"name": USER}, "rules": rules});
        // It is made where there is none.
        admin.put(&format!("{ROLE}/{USER}"), &role).granted();
        let binding = json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        });
        let bound = admin.post(&ROLE.replace("/roles", "/rolebindings"), &binding).status();
        assert!([201, 409].contains(&bound), "{bound}");
        // The API server hears of it a moment later. A patch that is not for this version changes nothing.
        let user = self.api.client(&self.api.user(USER, None));
        let may = |verb: &str| match verb {
            "get" => user.get(NUMBER).status() != 403,
            _ => user.patch(NUMBER, &json!({"metadata": {"resourceVersion": "1"}})).status() != 403,
        };
        until("the rights", || ["get", "patch"].iter().all(|verb| may(verb) == verbs.contains(verb)).then_some(()));
    }

    /// The number that is kept, where there is one.
    pub(crate) fn kept(&self) -> Option<String> {
        let kept = self.api.client(&self.api.admin()).get(NUMBER);
        kept.body()["data"]["bdSeq"].as_str().map(str::to_owned)
    }

    pub(crate) fn keep(&self, number: &str) {
        let new: Value = json!({"metadata": {"name": "edge-monitor"}, "data": {"bdSeq": number}});
        let path = NUMBER.trim_end_matches("/edge-monitor");
        self.api.client(&self.api.admin()).post(path, &new).granted();
    }
}

impl Program {
    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let (out, log) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        assert_eq!(out.next("that it is ready").as_deref(), Some("READY latchkey-edge-monitor"));
        Self { process: Process::watch(child).unwrap(), log }
    }

    /// Waits for a line of its log with all of these.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let mut seen = Vec::new();
        let wanted = |line: &str| words.iter().all(|word| line.contains(word));
        let found = self.log.find(&format!("{words:?}"), &mut seen, wanted);
        found.unwrap_or_else(|| panic!("it ended and said: {}", seen.join("\n")))
    }

    /// `kill -9`; it is gone when this returns.
    pub(crate) fn kill(self) {
        self.process.kill();
        assert!(self.process.gone());
    }

    pub(crate) fn stop(self) {
        self.process.terminate();
        assert!(self.process.wait(PATIENCE).unwrap().success());
    }
}

fn command(broker: &Broker, api: &ApiServer, centre: &FakeCentre) -> Command {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let config = json!({
        "centre": {"directory": centre.url(), "insecure": true}, "realm": "R",
        "cluster": {"uuid": identity("ACME-Bolt").cluster, "name": "Bolt"}, "namespace": "fplus-edge",
        "account": {"principal": MONITOR.0, "password_file": broker.path("password")},
        "kubernetes": {"kubeconfig": text(&api.kubeconfig(USER, &api.user(USER, None)))},
        "broker": {"url": format!("mqtts://localhost:{}", broker.port()), "authority": broker.path("ca.pem")},
    });
    let path = broker.path("edge-monitor.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-edge-monitor"));
    command.arg("--config").arg(&path);
    command
}
