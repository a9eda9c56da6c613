//! The list that the cluster step writes, read by the balancer that nodes run, before real API servers: `./dev e2e api-server`.

use crate::cluster_fake::{FakeKubeadm, member, ticket};
use crate::cluster_real::api_server::as_the_step_wants_it;
use latchkey_agent::cluster::Work;
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api_balancer::Config;
use latchkey_api_balancer::serve::{Balancer, Pace};
use latchkey_api_server_rig::{ApiServer, program};
use latchkey_test_support::{block_on, output};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

const QUICK: Pace = Pace { probe: Duration::from_millis(100), rounds: 1 };

/// A worker whose step has written its list, and the balancer that reads it.
struct Worker {
    files: FakeKubeadm,
    address: SocketAddr,
    _serving: smol::Task<()>,
}

impl Worker {
    fn of(cluster: &ApiServer, api_servers: [SocketAddr; 2]) -> Self {
        let files = FakeKubeadm::new();
        fs::write(files.path("api-balancer"), "").unwrap();
        let mut ticket = ticket();
        // Tickets name no address of loopback; where those of the test listen is put in their place.
        let named = ["192.0.2.1:6443", "192.0.2.2:6443"];
        ticket.api_servers = named.map(str::to_owned).into();
        files.run(&member(NodeRole::Worker), &Work::Join(ticket)).result.unwrap();
        let list = files.path("etc/latchkey/api-servers.json");
        let mut text = fs::read_to_string(&list).unwrap();
        for (named, address) in named.iter().zip(api_servers) {
            assert!(text.contains(named), "{text}");
            text = text.replace(named, &address.to_string());
        }
        fs::write(&list, text).unwrap();
        let authority = files.path("ca.crt");
        fs::write(&authority, cluster.authority()).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let config =
            Config { schema: 1, listen, api_servers: list, authority, client: files.path("none.pem"), pages: None };
        let balancer = block_on(Balancer::bind(config, QUICK)).unwrap();
        let address = balancer.address().unwrap();
        Self { files, address, _serving: smol::spawn(balancer.serve()) }
    }

    /// Stock kubectl with a kubeconfig that leads to the balancer.
    fn kubectl(&self, cluster: &ApiServer) -> Output {
        let direct = fs::read_to_string(cluster.kubeconfig("direct", &cluster.admin())).unwrap();
        let led: PathBuf = self.files.path("led.kubeconfig");
        fs::write(&led, direct.replace(&cluster.url(), &format!("https://{}", self.address))).unwrap();
        let mut kubectl = Command::new(program("kubectl"));
        kubectl.args(["get", "namespace", "default", "--output=name", "--request-timeout=20s", "--kubeconfig"]);
        output(kubectl.arg(led).env("HOME", self.files.path(""))).unwrap()
    }

    fn reaches(&self, cluster: &ApiServer) -> bool {
        let ran = self.kubectl(cluster);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        ran.stdout == b"namespace/default\n"
    }
}

#[test]
#[ignore = "needs real API servers and kubectl: ./dev e2e api-server"]
fn kubectl_goes_on_by_the_balancer_when_one_of_two_api_servers_dies_and_the_other_and_comes_back() {
    let (mut first, _node) = as_the_step_wants_it();
    let second = first.beside();
    let worker = Worker::of(&first, [first.address(), second.address()]);
    for _ in 0..4 {
        assert!(worker.reaches(&first));
    }
    first.kill_api();
    // At once, and when it is known to be down.
    for _ in 0..4 {
        assert!(worker.reaches(&first));
    }
    first.start_api();
    drop(second);
    for _ in 0..4 {
        assert!(worker.reaches(&first));
    }
}

#[test]
#[ignore = "needs real API servers and kubectl: ./dev e2e api-server"]
fn an_api_server_of_another_cluster_in_the_place_of_ours_is_refused_by_whoever_the_balancer_leads_there() {
    let (ours, _node) = as_the_step_wants_it();
    let (theirs, _their_node) = as_the_step_wants_it();
    let peer = theirs.beside();
    let worker = Worker::of(&ours, [theirs.address(), peer.address()]);
    let ran = worker.kubectl(&ours);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("x509"), "{said}");
}
