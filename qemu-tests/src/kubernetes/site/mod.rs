//! A site whose machines carry Kubernetes, and stock kubectl with the kubeconfig that `latchkey init` brought.

mod records;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::mirror::Mirror;
use super::{Kubectl, Which, program};
use crate::debian::{DebianRoot, Step};
use crate::error::{HarnessError, io_error};
use crate::fleet::{Fleet, Plan, STEP};
use crate::hardware::{Boot, Disk};
use crate::lan::{self, Lan};
use crate::machine::{HOST, Machine};
use crate::operator::words;
use crate::osimage::OsImage;
use crate::ports::Port;
use crate::service::Service;
use crate::tamper::{LOADER, Parts, TamperedDisk};
use crate::vm::Vm;

/// Where an API server listens.
pub const API_SERVER: u16 = 6443;
/// Where a control plane's join service listens, if it runs one.
const JOIN_SERVICE: u16 = 9010;
/// What a control plane says once its API server answers.
pub const API_IS_READY: &str = "OS api server is ready";
/// Translated, on a machine that has other things to do, `latchkey init` takes minutes.
const INIT: Duration = Duration::from_mins(30);
/// Addresses of pods.
const PODS: &str = "10.244.0.0/16";
/// Sparse; what a node writes is far less.
const STATE_DISK: u64 = 8 << 30;
/// Processors and megabytes. kubeadm asks for two processors and 1700 MB of a control plane, and for nothing of a worker; where
/// processors are emulated, each more costs the others time.
const CONTROL_PLANE: (u32, u32) = (2, 3072);
const WORKER: (u32, u32) = (1, 1024);
/// What kubeadm's name server does with names of other networks.
const FORWARD: &str = "forward .";
/// What the system says of itself: what failed, and when its own API server answers. Each question costs an emulated processor
/// seconds that the API server could use.
const SHOW: &str = "
PATH=$PATH:/run/latchkey-components
for unit in $(systemctl list-units --state=failed --plain --no-legend | cut -d ' ' -f 1); do echo OS failed unit $unit; done
[ ! -e /etc/kubernetes/latchkey/api-servers.json ] || echo OS balances $(tr -d ' \\n' < /etc/kubernetes/latchkey/api-servers.json)
[ -e /etc/kubernetes/manifests/kube-apiserver.yaml ] || exit 0
until kubectl --kubeconfig /etc/kubernetes/kubelet.conf get --raw /readyz > /dev/null 2>&1; do sleep 5; done
echo OS api server is ready";

/// The cluster step of a site without ours: what people type, and nothing else.
const TYPED: &str = r#"#!/bin/sh
cat > /dev/null
name=$(sed 's/.*"node_name":"\([^"]*\)".*/\1/' /sys/firmware/qemu_fw_cfg/by_name/opt/latchkey/metadata.json/raw)
first=10.1.0.1
token=typed0.0123456789abcdef
case $1 in
init)
    kubeadm init --node-name "$name" --kubernetes-version "$(kubeadm version --output short)" --token $token \
        --apiserver-advertise-address $first --control-plane-endpoint $first:6443 --pod-network-cidr 10.244.0.0/16 >&2 &&
        cat /etc/kubernetes/admin.conf
    ;;
join) kubeadm join $first:6443 --node-name "$name" --token $token --discovery-token-unsafe-skip-ca-verification >&2 ;;
start) systemctl start kubelet ;;
esac
"#;

/// What makes the network of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodNetwork {
    /// The image, on each node alone.
    Bridge,
    /// Our chart of flannel's daemon, across nodes.
    Flannel,
}

/// A site, and the network between its machines.
#[derive(Debug)]
pub struct Site {
    /// Everything but the nodes.
    pub fleet: Fleet,
    lan: Lan,
    /// Whether nodes find the API servers by the balancer of their image.
    with_balancer: bool,
    /// Where machines find the join services of the first control planes, if these run them.
    inside: Vec<Port>,
    /// Where machines get the components that their image lacks.
    pub(super) mirror: Option<Mirror>,
    /// The folder of those that the cluster is founded with.
    components: PathBuf,
    /// How long something that a node comes to is waited for.
    patience: Duration,
}

impl Site {
    /// Builds an image that carries Kubernetes, and what a site needs besides.
    pub fn new(name: &str, network: PodNetwork, show: bool) -> Result<Self, HarnessError> {
        Self::planned(name, Step::Kubeadm(network), "", |plan| plan.show = show)
    }

    /// The same, where kubeadm is called as people type it: to measure beside.
    pub fn typed(name: &str) -> Result<Self, HarnessError> {
        Self::planned(name, Step::ByHand(TYPED), "", |_| ())
    }

    /// The same for a cluster whose control planes run its services; machines find those of the first two.
    pub fn with_services_inside(name: &str) -> Result<Self, HarnessError> {
        let mut site = Self::planned(name, Step::Kubeadm(PodNetwork::Bridge), "", |plan| plan.services_inside = true)?;
        let second = Port::choose()?;
        site.fleet.peers = vec![format!("{HOST}:{}", second.number())];
        Ok(Self { with_balancer: true, inside: vec![site.fleet.join_port.clone(), second], ..site })
    }

    /// The same for machines whose image has no Kubernetes in it: they get it from a mirror.
    pub fn with_components_fetched(name: &str, network: PodNetwork) -> Result<Self, HarnessError> {
        let site = Self::planned(name, Step::Kubeadm(network), "", |plan| plan.components_fetched = true)?;
        let folder = super::folder(Which::This)?;
        Ok(Self { mirror: Some(Mirror::start(&folder)?), components: folder, ..site })
    }

    /// The same for machines that register their clusters at a centre, which the words name; these archives of container images are in
    /// their image.
    #[cfg(feature = "centre")]
    pub(crate) fn with_edge(
        name: &str,
        words: &str,
        container_images: Vec<PathBuf>,
        show: bool,
    ) -> Result<Self, HarnessError> {
        Self::planned(name, Step::Kubeadm(PodNetwork::Bridge), words, |plan| {
            plan.container_images = container_images;
            plan.show = show;
        })
    }

    fn planned(name: &str, step: Step, words: &str, change: impl FnOnce(&mut Plan<'_>)) -> Result<Self, HarnessError> {
        // The directories that last are those of kubeadm, kubelet, etcd and containerd unless the configuration says.
        let debian = Some(DebianRoot { systemd: json!({"state": {}}), step });
        let words = format!("{} {words}", site_words());
        let mut plan = Plan { words: &words, then: SHOW, debian, state_disk: Some(STATE_DISK), ..Plan::default() };
        change(&mut plan);
        let fleet = Fleet::planned(name, plan)?;
        Ok(Self {
            fleet,
            lan: Lan::new()?,
            with_balancer: false,
            inside: Vec::new(),
            mirror: None,
            components: PathBuf::new(),
            patience: STEP,
        })
    }

    /// The same for a cluster whose nodes find the API servers by the balancer of their image.
    pub fn with_balancer(name: &str) -> Result<Self, HarnessError> {
        Ok(Self { with_balancer: true, ..Self::new(name, PodNetwork::Bridge, false)? })
    }

    /// The same with more patience, for more machines than the processors can run at their pace.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Another image of this site, with these words instead of those of its machines; in the directory `name`.
    #[cfg(feature = "centre")]
    pub(crate) fn other_image(&self, name: &str, words: &str) -> Result<OsImage, HarnessError> {
        self.fleet.build_image(name, crate::fleet::VERSION, &format!("{} {words}", site_words()))
    }

    /// A machine that becomes a control plane: `node-NUMBER`.
    pub fn control_plane(&self, number: u8) -> Result<Machine, HarnessError> {
        self.control_plane_of(&format!("node-{number}"), number, self.fleet.image())
    }

    /// The same under another name, with another image.
    pub(crate) fn control_plane_of(&self, name: &str, number: u8, image: &OsImage) -> Result<Machine, HarnessError> {
        let machine = self.node(name, number, CONTROL_PLANE, image)?;
        let machine = machine.forward(Port::choose()?, API_SERVER);
        let inside = self.inside.get(usize::from(number).wrapping_sub(1)).cloned();
        Ok(inside.into_iter().fold(machine, |machine, port| machine.forward(port, JOIN_SERVICE)))
    }

    /// A machine that becomes a worker. It yields to control planes: an API server that gets no time to answer its probes is ended
    /// by its kubelet, and begun anew.
    pub fn worker(&self, number: u8) -> Result<Machine, HarnessError> {
        Ok(self.node(&format!("node-{number}"), number, WORKER, self.fleet.image())?.yields())
    }

    fn node(
        &self,
        name: &str,
        number: u8,
        (processors, memory): (u32, u32),
        image: &OsImage,
    ) -> Result<Machine, HarnessError> {
        let machine = self.fleet.machine_of(name, image.boot(), &self.fleet.tpm(name)?)?;
        Ok(machine.processors(processors).memory(memory).lan(&self.lan, number))
    }

    /// A machine whose disk holds the image with another command line.
    pub fn impostor(&self, name: &str) -> Result<Machine, HarnessError> {
        let (run, image) = (self.fleet.run(), self.fleet.image());
        let uki = std::fs::read(&image.uki).map_err(io_error("read", &image.uki))?;
        let stub = crate::bootimage::stub()?;
        let stub = std::fs::read(&stub).map_err(io_error("read", &stub))?;
        let mut parts = Parts::of(&uki, stub)?;
        parts.command_line.push_str(" latchkey.log=debug");
        let disk = TamperedDisk::copy(run, &format!("{name}.raw"), &image.disk)?;
        disk.write(LOADER, &parts.build()?)?;
        let boot = Boot::Disk(Disk::new(disk.path(), "os").read_only());
        self.fleet.machine_of(name, boot, &self.fleet.tpm(name)?)
    }

    /// `latchkey init` to its end: the operator reaches the API server through a forwarded port, nodes by the network between them.
    /// What it printed.
    pub fn init(&self, first: &Vm, store: &str) -> Result<String, HarnessError> {
        self.init_with(first, store, &[])
    }

    /// The same with more arguments.
    pub fn init_with(&self, first: &Vm, store: &str, others: &[&str]) -> Result<String, HarnessError> {
        self.init_by(self.fleet.init_arguments(first), first, store, others)
    }

    /// The same for another cluster, in the directory of this name.
    #[cfg(feature = "centre")]
    pub(crate) fn init_in(
        &self,
        cluster: &str,
        first: &Vm,
        store: &str,
        others: &[&str],
    ) -> Result<String, HarnessError> {
        self.init_by(self.fleet.init_arguments_in(first, cluster), first, store, others)
    }

    fn init_by(
        &self,
        mut arguments: Vec<String>,
        first: &Vm,
        store: &str,
        others: &[&str],
    ) -> Result<String, HarnessError> {
        let here = first.address(API_SERVER).map(|address| address.to_string()).unwrap_or_default();
        let endpoint = format!("{}:{API_SERVER}", lan::address(1));
        let more = ["--kubernetes", "1.34", "--control-plane-endpoint", &endpoint, "--pod-cidr", PODS];
        let more = [&more[..], &["--api-server", &here, "--store", store], others].concat();
        arguments.extend(more.into_iter().map(str::to_owned));
        arguments.extend(self.with_balancer.then(|| "--api-balancer".to_owned()));
        if !self.inside.is_empty() {
            let key = self.fleet.path("join-service.key");
            arguments.extend(["--services", "inside", "--join-service-key", &key].map(str::to_owned));
        }
        if let Some(mirror) = &self.mirror {
            arguments.extend(mirror.named(&self.components));
        }
        let init = self.fleet.cli_in_background("init", &words(&arguments))?;
        let console = init.console().clone();
        if init.wait(INIT)?.success() {
            return Ok(console.text());
        }
        Err(HarnessError::Command { command: "latchkey init".into(), output: console.text() })
    }

    /// Installs flannel with the operator's command.
    pub fn install_flannel(&self) -> Result<(), HarnessError> {
        let chart = crate::build::workspace().join("charts/flannel");
        let api_server = format!("{}:{API_SERVER}", lan::address(1));
        let values =
            json!({"image": super::FLANNEL, "podCidr": PODS, "interface": lan::INTERFACE, "apiServer": api_server});
        let flannel = json!({
            "name": "flannel", "namespace": "kube-system", "chart": {"directory": chart}, "values": {"inline": values},
        });
        let charts = json!({"schema": 1, "charts": [flannel]}).to_string();
        let charts = self.fleet.run().write("charts.json", charts)?.display().to_string();
        let install = ["charts", "install", "--charts", &charts, "--kubeconfig", &self.fleet.path("admin.conf")];
        self.fleet.cli(&install)?.success("charts install").map(drop)
    }

    /// Stock kubectl, as the operator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::of(self.fleet.path("admin.conf"))
    }

    /// What it prints.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, HarnessError> {
        self.kubectl().ask(arguments)
    }

    /// What it prints, as it comes.
    pub fn follow(&self, name: &str, arguments: &[&str]) -> Result<Service, HarnessError> {
        Service::spawn(self.fleet.run(), name, self.kubectl().command(arguments)?)
    }

    /// Applies objects.
    pub fn apply(&self, name: &str, objects: &[Value]) -> Result<(), HarnessError> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let file = self.fleet.run().write(name, list)?.display().to_string();
        // The server validates; what kubectl needs for it is the largest answer of all.
        self.ask(&["apply", "--validate=false", "--filename", &file]).map(drop)
    }

    /// Has the cluster's name server know this name of the machine that all this runs on: a site without one of its own.
    pub fn names_host(&self, name: &str) -> Result<(), HarnessError> {
        let map = "configmap/coredns";
        let of_kubeadm = |arguments: &[&str]| self.ask(&[&["--namespace", "kube-system"], arguments].concat());
        let text = of_kubeadm(&["get", map, "--output", "jsonpath={.data.Corefile}"])?;
        if !text.contains(FORWARD) {
            return Err(HarnessError::Unusable(format!("CoreDNS forwards nothing: {text}")));
        }
        let known = format!("hosts {{\n       {HOST} {name}\n       fallthrough\n    }}\n    {FORWARD}");
        let patch = json!({"data": {"Corefile": text.replacen(FORWARD, &known, 1)}}).to_string();
        of_kubeadm(&["patch", map, "--type", "merge", "--patch", &patch])?;
        of_kubeadm(&["rollout", "restart", "deployment/coredns"]).map(drop)
    }
}

/// Words on the command line of its images, beside those of each site.
pub(super) fn site_words() -> String {
    format!("latchkey.init=/lib/systemd/systemd {}", lan::WORDS)
}

/// PATH with stock kubectl and helm first, as an operator has it.
pub(crate) fn path_with_programs() -> Result<OsString, HarnessError> {
    let directory = |name: &str| {
        let program = program(name)?;
        Ok::<_, HarnessError>(program.parent().map(std::path::Path::to_path_buf).unwrap_or_default())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [directory("kubectl")?, directory("helm")?].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(all).map_err(|error| HarnessError::Unusable(format!("PATH: {error}")))
}
