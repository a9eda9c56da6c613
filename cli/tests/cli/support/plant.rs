//! A cluster in a real API server, of a fake node, for the real command with real kubectl and helm.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Child;

use latchkey_api_server_rig::{ApiServer, Client, Setup, program};
use serde_json::Value;

use super::command::Ran;
use super::node::{Behaviour, FakeNode};
use super::operator::Operator;

pub const NODES: &str = "/apis/latchkey.dev/v1alpha1/attestednodes";
pub const MAPS: &str = "/api/v1/namespaces/latchkey/configmaps";

/// The cluster, and who works on it.
pub struct Plant {
    pub operator: Operator,
    pub node: FakeNode,
    pub server: ApiServer,
    pub admin: Client,
    pub kubectl: PathBuf,
    pub helm: PathBuf,
}

impl Plant {
    /// A node whose cluster step gives the credentials of a real API server.
    pub fn new() -> Self {
        let (operator, node) = Operator::with_node();
        Self::of(operator, node)
    }

    /// The same, of a node whose manifest says nothing of its firmware.
    pub fn with_any_firmware() -> Self {
        let operator = Operator::new();
        let node = FakeNode::start(&operator.init_secret());
        node.set_pcr(2, [1; 32]);
        let (address, ek) = (node.address(), node.ek().to_string());
        let arguments = ["record", &address, "--ek-pin", &ek, "--name", "demo", "--version", "1.0.0", "--warn", ""];
        let files = ["--out", "demo.json", "--policy-out", "policy.json", "--firmware-refuse", "0,2"];
        operator.run(&[&arguments[..], &files].concat()).succeeded();
        Self::of(operator, node)
    }

    pub fn of(operator: Operator, node: FakeNode) -> Self {
        let server = ApiServer::with(Setup { controllers: true, ..Setup::default() });
        let admin = server.client(&server.admin());
        let config = fs::read(server.kubeconfig("operator", &server.admin())).unwrap();
        node.behave(Behaviour { admin_config: Some(config), ..Behaviour::default() });
        Self { operator, node, server, admin, kubectl: program("kubectl"), helm: program("helm") }
    }

    pub fn init(&self, more: &[&str]) -> Ran {
        super::command::finish(self.init_started(more))
    }

    pub fn init_started(&self, more: &[&str]) -> Child {
        let (kubectl, helm) = (self.kubectl.to_str().unwrap(), self.helm.to_str().unwrap());
        let programs = ["--kubectl-program", kubectl, "--helm-program", helm, "--output", "json"];
        // Where a version or an earlier run says it, it goes without saying.
        let goes_without_saying = more.iter().any(|word| matches!(*word, "--kubernetes" | "--resume"));
        let store: &[&str] = if goes_without_saying { &[] } else { &["--store", "kubernetes"] };
        // The real one is on loopback, where no node finds it.
        let endpoint = ["--control-plane-endpoint", "api.plant.example"];
        self.operator.init_started(&self.node, &[store, &programs, &endpoint, more].concat())
    }

    /// A command about machines, by the cluster's directory.
    pub fn machines(&self, arguments: &[&str]) -> Ran {
        let kubectl = self.kubectl.to_str().unwrap();
        let more = ["--cluster", "plant", "--kubectl-program", kubectl, "--output", "json"];
        self.operator.run(&[arguments, &more].concat())
    }

    /// A command by the kubeconfig alone.
    pub fn by_kubeconfig(&self, arguments: &[&str]) -> Ran {
        let kubectl = self.kubectl.to_str().unwrap();
        let more = ["--kubeconfig", "plant/admin.conf", "--kubectl-program", kubectl, "--output", "json"];
        self.operator.run(&[arguments, &more].concat())
    }

    pub fn items(&self, path: &str) -> Vec<Value> {
        self.admin.get(path).granted()["items"].as_array().unwrap().clone()
    }

    pub fn data(&self, map: &str) -> Value {
        self.admin.get(&format!("{MAPS}/{map}")).granted()["data"].clone()
    }

    pub fn binary_data(&self, map: &str) -> Value {
        self.admin.get(&format!("{MAPS}/{map}")).granted()["binaryData"].clone()
    }

    /// A program that does what a test tells it: fake, in the place of a stock one.
    pub fn fake_program(&self, name: &str, script: &str) -> PathBuf {
        use std::io::Write as _;
        let path = self.operator.path(name);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path).unwrap();
        file.write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        path
    }
}

pub fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}
