//! Three control planes and a worker in namespaces of this machine's kernel, by the agent's cluster step: a cluster whose making is
//! cut at each point, joins that are, one control plane that is lost (the worker had joined through it), all of them without power at
//! once, and one that is removed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latchkey_agent::cluster::{ClusterStep as _, Kubeadm, Member, Seal, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::control_plane::{NAMES, file};
use latchkey_api::v1::{ClusterJoin, ClusterSettings, SecretsKey};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::node_object;
use latchkey_cluster_store::{NodeRecord, Role};
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::kubernetes::{EtcdMember, etcd_members, program};
use latchkey_qemu_tests::namespaces::{Namespaces, Node, not_possible, on_host};
use latchkey_qemu_tests::process::output;
use latchkey_qemu_tests::service::Service;
use latchkey_test_support::until_within;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Where a process finds what it is to do in a machine: then it is the machine's part of the test.
const PART: &str = "LATCHKEY_TEST_CLUSTER_STEP";
/// A step of a control plane, while others work on the same processors.
const STEP: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_secs(1);
const TEST: &str =
    "three_control_planes::control_planes_join_although_they_are_cut_and_a_cluster_outlives_one_of_three";
/// What the making of a cluster says on its way, and may be a little further when it is cut: with authorities, when there is
/// something for the kubelet to run, with an API server that answers, with what others read there, with the first pods, and when
/// kubeadm is done.
const INIT_CUTS: [&str; 6] = [
    "[certs] Generating \"apiserver\" certificate and key",
    "[control-plane] Creating static Pod manifest for \"kube-apiserver\"",
    "[upload-config] Storing the configuration",
    "[bootstrap-token] Configuring bootstrap tokens",
    "[addons] Applied essential addon",
    "[latchkey] Taking back",
];
/// What a join says on its way, and may be a little further when it is cut: before kubeadm, while nothing of it is in the cluster, when
/// its kubelet asks for a certificate, when etcd is told of its member, when the member's data come, and when etcd counts it.
const CUTS: [&str; 6] = [
    "[preflight] Running pre-flight checks",
    "[control-plane] Creating static Pod manifest",
    "[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap",
    "[etcd] Announced new etcd member",
    "[etcd] Waiting for the new etcd member",
    "[mark-control-plane] Marking the node",
];

/// What a machine is to do, instead of a lifecycle's answer: this test has no join service.
#[derive(Serialize, Deserialize)]
enum Part {
    Init {
        endpoint: String,
    },
    /// As a control plane, or as a worker.
    Join {
        worker: bool,
        endpoint: String,
        token: String,
        authority: PathBuf,
        api_servers: Vec<String>,
    },
    Start,
}

#[derive(Serialize, Deserialize)]
struct Task {
    name: String,
    part: Part,
}

fn secrets_key() -> SecretsKey {
    let mut key = SecretsKey::default();
    (key.key, key.version) = (vec![0x5e; 32], 1);
    key
}

/// In the machine: the agent's cluster step, told line by line.
fn in_the_machine(task: &Path) {
    let task: Task = serde_json::from_slice(&std::fs::read(task).unwrap()).unwrap();
    let (role, work) = match task.part {
        Part::Init { endpoint } => {
            let mut settings = ClusterSettings::default();
            (settings.control_plane_endpoint, settings.api_balancer) = (endpoint, true);
            settings.secrets_key = Some(secrets_key());
            (NodeRole::First, Work::Init(settings, None))
        }
        Part::Join { worker, endpoint, token, authority, api_servers } => {
            let mut ticket = ClusterJoin::default();
            let read = |name: &str| std::fs::read(authority.join(name)).unwrap();
            ticket.ca_certificates = read("ca.crt");
            (ticket.api_server_endpoint, ticket.bootstrap_token) = (endpoint, token);
            ticket.api_servers = api_servers;
            if worker {
                return step(task.name, NodeRole::Worker, &Work::Join(ticket));
            }
            ticket.control_plane_files = NAMES.iter().map(|name| file(name, read(name))).collect();
            ticket.secrets_key = Some(secrets_key());
            (NodeRole::ControlPlane, Work::Join(ticket))
        }
        Part::Start => (NodeRole::ControlPlane, Work::Start(None)),
    };
    step(task.name, role, &work);
}

fn step(node_name: String, role: NodeRole, work: &Work) {
    let member = Member {
        node_name,
        role,
        cluster_id: "ab".repeat(32),
        cluster_name: "plant".into(),
        disk: String::new(),
        seal: Seal::new(&[7; 32]),
    };
    let step = Kubeadm { is_kept_on: |_, _| Ok(true), ..Kubeadm::default() };
    let done = smol::block_on(step.run(&member, work, &mut |line| println!("{line}")));
    match done {
        Ok(_) => println!("the step is done"),
        Err(error) => panic!("{error}: {}", error.log_tail),
    }
}

struct Cluster {
    machines: Namespaces,
    kubectl: PathBuf,
    kubeconfig: String,
    endpoint: String,
    /// The authorities' files, which the first node's kubeadm made.
    authority: PathBuf,
    tickets: std::cell::Cell<u32>,
}

impl Cluster {
    /// The first node is cut once at each point, and begins anew.
    fn found(machines: Namespaces, first: &mut Node) -> Self {
        let endpoint = format!("{}:6443", first.address());
        let kubernetes = first.directory().join("upper/etc/kubernetes");
        let kubeconfig = machines.run().file("admin.conf");
        let cluster = Self {
            kubectl: program("kubectl").unwrap(),
            kubeconfig: kubeconfig.display().to_string(),
            authority: kubernetes.join("pki"),
            tickets: std::cell::Cell::default(),
            endpoint,
            machines,
        };
        let init = || Part::Init { endpoint: cluster.endpoint.clone() };
        for line in INIT_CUTS {
            let cut = Instant::now();
            let step = cluster.begin(first, init());
            step.0.console().expect(line, STEP).unwrap();
            first.cut().unwrap();
            drop(step);
            cluster.machines.power_on(first).unwrap();
            seconds(&format!("node-1 was cut after {line}"), cut);
        }
        cluster.begin(first, init()).done();
        let made = std::fs::read_to_string(kubernetes.join("admin.conf")).unwrap();
        std::fs::write(&kubeconfig, made.replace("https://127.0.0.1:7445", &format!("https://{}", cluster.endpoint)))
            .unwrap();
        // Our chart: what holders of tickets may do, and records. No join service grants their certificates here.
        let chart = build::workspace().join("charts/latchkey");
        let mut helm = cluster.machines.in_network(program("helm").unwrap());
        helm.args(["install", "latchkey"]).arg(chart).args(["--kubeconfig", &cluster.kubeconfig]);
        output(helm.args(["--namespace", "latchkey", "--create-namespace"])).unwrap();
        let default = json!({"role": "hold", "name": "as-requested", "on_new_disk": "refuse"});
        let rules = json!({"version": 1, "pinned": [], "default": default}).to_string();
        let rules = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "latchkey", "name": "latchkey-enrolment"},
            "data": {"enrolment.json": rules},
        });
        cluster.apply("enrolment.json", &rules.to_string());
        let (role, group) =
            ("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers:latchkey");
        cluster.ask(&["create", "clusterrolebinding", "grant", "--clusterrole", role, "--group", group]);
        cluster
    }

    /// Stock kubectl, as the operator, by the API server of this node.
    fn try_at(&self, node: &Node, arguments: &[&str]) -> Result<String, latchkey_qemu_tests::HarnessError> {
        let server = format!("https://{}:6443", node.address());
        let mut command = self.machines.in_network(&self.kubectl);
        command.args(["--kubeconfig", &self.kubeconfig, "--server", &server, "--request-timeout", "10s"]);
        output(command.args(arguments))
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = self.machines.in_network(&self.kubectl);
        output(command.args(["--kubeconfig", &self.kubeconfig]).args(arguments)).unwrap()
    }

    fn apply(&self, name: &str, document: &str) {
        let path = self.machines.run().write(name, document).unwrap();
        self.ask(&["apply", "--filename", path.to_str().unwrap()]);
    }

    /// Starts the agent's step in a machine.
    fn begin(&self, node: &Node, part: Part) -> Step {
        let task = Task { name: node.name(), part };
        let name = format!("{}-step", node.name());
        let file = self.machines.run().write(&name, serde_json::to_vec(&task).unwrap()).unwrap();
        let mut command = node.myself().unwrap();
        command.args(["--exact", TEST, "--ignored", "--nocapture"]).env(PART, on_host(&file));
        Step(Service::spawn(self.machines.run(), &name, command).unwrap())
    }

    /// A ticket's part of a control plane's join, with a token of its own.
    fn join(&self, api_servers: &[&Node]) -> Part {
        self.ticket(false, api_servers)
    }

    fn ticket(&self, worker: bool, api_servers: &[&Node]) -> Part {
        let number = self.tickets.get() + 1;
        self.tickets.set(number);
        let (id, secret) = (format!("ticket{number:02}")[2..].to_owned(), "0123456789abcdef");
        let token = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")},
            "stringData": {
                "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:latchkey",
            },
        });
        self.apply("token.json", &token.to_string());
        Part::Join {
            worker,
            endpoint: self.endpoint.clone(),
            token: format!("{id}.{secret}"),
            authority: on_host(&self.authority),
            api_servers: api_servers.iter().map(|node| format!("{}:6443", node.address())).collect(),
        }
    }

    /// Grants kubelets the serving certificates that they ask for, as the join service would: by them `kubectl exec` knows a kubelet.
    fn grant(&self, at: &Node) -> Option<()> {
        let shown = r#"jsonpath={range .items[?(@.spec.signerName=="kubernetes.io/kubelet-serving")]}{.metadata.name} {.status.conditions[0].type}{"\n"}{end}"#;
        let all = self.try_at(at, &["get", "certificatesigningrequests", "--output", shown]).ok()?;
        let waiting = all.lines().filter_map(|line| line.split_once(' ').filter(|(_, condition)| condition.is_empty()));
        waiting.map(|(name, _)| self.try_at(at, &["certificate", "approve", name]).ok().map(drop)).collect()
    }

    fn members(&self, at: &Node) -> Option<Vec<EtcdMember>> {
        etcd_members(&at.name(), &mut |arguments| self.try_at(at, arguments)).ok()
    }

    /// Waits until etcd has these members, all with a vote, as the one of `at` says.
    fn counts(&self, at: &Node, nodes: &[&Node]) {
        let wanted: Vec<_> = nodes.iter().map(|node| EtcdMember::voter(&node.name())).collect();
        let names: Vec<_> = nodes.iter().map(|node| node.name()).collect();
        until_within(format!("etcd of {} to have the members {names:?}", at.name()), STEP, PAUSE, || {
            self.grant(at)?;
            (self.members(at)? == wanted).then_some(())
        });
    }

    /// Waits until the kubelet of a node has renewed its lease, as the API server of `at` says: by whichever API server it did so.
    fn renews(&self, at: &Node, node: &Node) {
        let name = node.name();
        let lease = ["get", "lease", &name, "--namespace", "kube-node-lease", "--output", "jsonpath={.spec.renewTime}"];
        let mut first = None;
        until_within(format!("{name} to renew its lease"), STEP, PAUSE, || {
            let renewed = self.try_at(at, &lease).ok()?;
            (*first.get_or_insert_with(|| renewed.clone()) != renewed).then_some(())
        });
    }

    fn write(&self, at: &Node, name: &str) {
        let write = ["create", "configmap", name];
        until_within(format!("{} to write {name}", at.name()), STEP, PAUSE, || self.try_at(at, &write).ok());
    }

    /// Power, and the step of a member.
    fn restart(&self, node: &mut Node) -> Step {
        self.machines.power_on(node).unwrap();
        self.begin(node, Part::Start)
    }

    /// The operator's command, with the record that the join service would have made.
    fn remove(&self, node: &Node, number: u64) {
        let ek = EkDigest::from_hex(&format!("{number:064x}")).unwrap();
        let disk = format!("0a0a0a0a-0000-4000-8000-{number:012x}").parse().unwrap();
        let mut record = NodeRecord::first(ek, node.name().parse().unwrap(), Role::ControlPlane, disk, 1, 1);
        record.addresses = vec![node.address().parse().unwrap()];
        self.apply("record.json", &node_object(&record).to_string());
        let mut command = self.machines.in_network(build::program("latchkey").unwrap());
        command.args(["node", "remove", &node.name(), "--kubeconfig", &self.kubeconfig]);
        output(command.arg("--kubectl-program").arg(&self.kubectl)).unwrap();
        let left = self.ask(&["get", "nodes,attestednodes", "--output", "name"]);
        assert!(!left.contains(&node.name()) && !left.contains(&ek.to_string()), "{left}");
    }
}

/// A step that runs in a machine.
struct Step(Service);

impl Step {
    fn done(self) {
        let console = self.0.console().clone();
        console.expect("the step is done", STEP).unwrap();
        assert!(self.0.wait(STEP).unwrap().success(), "{}", console.text());
    }
}

/// Waits until the balancer of a machine knows these API servers.
fn balances(node: &Node, servers: &[&Node]) {
    let list = node.directory().join("upper/etc/kubernetes/latchkey/api-servers.json");
    until_within(format!("the balancer of {} to know {} API servers", node.name(), servers.len()), STEP, PAUSE, || {
        let known = std::fs::read_to_string(&list).ok()?;
        servers.iter().all(|server| known.contains(&format!("\"{}:6443\"", server.address()))).then_some(())
    });
}

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; needs root; ./dev e2e three-control-planes"]
fn control_planes_join_although_they_are_cut_and_a_cluster_outlives_one_of_three() {
    if let Ok(task) = std::env::var(PART) {
        return in_the_machine(task.as_ref());
    }
    assert_eq!(not_possible(), None);
    let begun = Instant::now();
    let machines = Namespaces::new("three").unwrap();
    let mut first = machines.node(1).unwrap();
    let cluster = Cluster::found(machines, &mut first);
    seconds("node-1 is a cluster", begun);
    cluster.counts(&first, &[&first]);

    // Of two members both are needed: the second is watched, as LIMITATIONS.md says.
    let joined = Instant::now();
    let mut second = cluster.machines.node(2).unwrap();
    cluster.begin(&second, cluster.join(&[&first])).done();
    seconds("node-2 has joined", joined);
    cluster.counts(&first, &[&first, &second]);

    // The third is cut once at each point, and joins with the next ticket; nothing of the cut join is left in etcd.
    let mut third = cluster.machines.node(3).unwrap();
    for (number, line) in CUTS.iter().enumerate() {
        let cut = Instant::now();
        let step = cluster.begin(&third, cluster.join(&[&first, &second]));
        step.0.console().expect(line, STEP).unwrap();
        third.cut().unwrap();
        drop(step);
        // The others go on without it, whatever etcd was told of it.
        cluster.write(&first, &format!("cut-{number}"));
        cluster.machines.power_on(&mut third).unwrap();
        cluster.begin(&third, cluster.join(&[&first, &second])).done();
        seconds(&format!("node-3 has joined, cut after {line}"), cut);
        cluster.counts(&first, &[&first, &second, &third]);
        if number + 1 < CUTS.len() {
            third.cut().unwrap();
            cluster.remove(&third, 100 + number as u64);
            cluster.counts(&first, &[&first, &second]);
            third.wipe().unwrap();
            cluster.machines.power_on(&mut third).unwrap();
        }
    }

    // A worker that knows of one control plane, and hears of the others.
    let fourth = cluster.machines.node(4).unwrap();
    cluster.begin(&fourth, cluster.ticket(true, &[&first])).done();
    for node in [&first, &second, &third, &fourth] {
        balances(node, &[&first, &second, &third]);
    }
    cluster.renews(&first, &fourth);

    // One is lost, the one by which the others joined: each of these answers, and takes what is written.
    let lost = Instant::now();
    first.cut().unwrap();
    cluster.write(&second, "by-second");
    cluster.write(&third, "by-third");
    seconds("node-1 lost: to writes by both others", lost);
    cluster.renews(&second, &fourth);
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    assert_eq!(cluster.try_at(&third, &["get", "node", "node-4", "--output", ready]).unwrap(), "True");
    seconds("node-1 lost: to the lease of the worker that had joined through it", lost);
    let back = Instant::now();
    cluster.restart(&mut first).done();
    cluster.write(&first, "by-first");
    cluster.counts(&first, &[&first, &second, &third]);
    seconds("node-1 is back", back);

    // All at once.
    for node in [&mut first, &mut second, &mut third] {
        node.cut().unwrap();
    }
    let all = Instant::now();
    let steps = [&mut first, &mut second, &mut third].map(|node| cluster.restart(node));
    steps.into_iter().for_each(Step::done);
    cluster.write(&first, "after-all");
    for node in [&first, &second, &third] {
        cluster.counts(node, &[&first, &second, &third]);
        let kept = cluster.try_at(node, &["get", "configmaps", "--output", "name"]).unwrap();
        assert!(["by-second", "by-third", "by-first", "after-all"].iter().all(|name| kept.contains(name)), "{kept}");
    }
    seconds("all without power: to a write, and three members by each", all);

    // One does not come back.
    third.cut().unwrap();
    cluster.remove(&third, 200);
    cluster.counts(&first, &[&first, &second]);
    cluster.write(&second, "by-two");
}
