//! What etcd says of a vote that it does not give: from its words the cluster step concludes that a control plane has one.

use crate::cluster_kubeadm::goes_on_without_etcd;
use latchkey_api_server_rig::{is_built_or_skip, program};
use latchkey_test_support::{Port, Process, drained, spawn, until};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// An etcd of one member, asked by its gateway (`etcd.io/docs/v3.6/dev-guide/api_grpc_gateway`).
struct Etcd {
    client: Port,
    _process: Process,
    _data: TempDir,
}

impl Etcd {
    fn start() -> Self {
        let (client, peers, data) = (Port::reserve(), Port::reserve(), tempfile::tempdir().unwrap());
        let url = |port: &Port| format!("http://{}", port.address());
        let mut command = Command::new(program("etcd"));
        command.args(["--name=one", "--unsafe-no-fsync"]).arg("--data-dir").arg(data.path());
        for (flag, value) in [
            ("listen-client-urls", url(&client)),
            ("advertise-client-urls", url(&client)),
            ("listen-peer-urls", url(&peers)),
            ("initial-advertise-peer-urls", url(&peers)),
            ("initial-cluster", format!("one={}", url(&peers))),
        ] {
            command.arg(format!("--{flag}={value}"));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::watch(spawn(command).unwrap()).unwrap();
        let etcd = Self { client, _process: process, _data: data };
        until("etcd to have its one member", || etcd.asked("list", &json!({}))["members"].is_array().then_some(()));
        etcd
    }

    /// What it says of its members.
    fn asked(&self, what: &str, question: &Value) -> Value {
        let address: SocketAddr = self.client.address();
        let Ok(mut stream) = TcpStream::connect(address) else { return Value::Null };
        let body = question.to_string();
        let head = format!(
            "POST /v3/cluster/member/{what} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let answer = String::from_utf8(drained(&mut stream)).unwrap();
        answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default()
    }

    /// What it says to whoever asks for this member's vote.
    fn refuses_a_vote(&self, member: &Value) -> String {
        let answer = self.asked("promote", &json!({"ID": member}));
        // What gRPC calls FailedPrecondition.
        assert_eq!(answer["code"], 9, "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_vote_is_concluded_from_what_the_real_etcd_says_to_a_voter_and_not_to_a_learner() {
    if !is_built_or_skip() {
        return;
    }
    let etcd = Etcd::start();
    let voter = etcd.asked("list", &json!({}))["members"][0]["ID"].clone();
    let learner = json!({"peerURLs": ["http://127.0.0.1:1"], "isLearner": true});
    let learner = etcd.asked("add", &learner)["member"]["ID"].clone();
    for (member, has_its_vote) in [(voter, true), (learner, false)] {
        let said = etcd.refuses_a_vote(&member);
        // As kubeadm's client of etcd logs it.
        let logged = json!({"level": "warn", "error": format!("rpc error: code = FailedPrecondition desc = {said}")});
        assert_eq!(goes_on_without_etcd(&format!("echo '{logged}' >&2;")), has_its_vote, "{said}");
    }
}
