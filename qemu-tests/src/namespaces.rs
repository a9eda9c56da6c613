//! Machines without a kernel of their own: namespaces of this one, each with the Debian that images with Kubernetes are made of.
//!
//! Three control planes are more than two emulated processors can carry. Here containerd, the kubelet, kubeadm, etcd, the control plane
//! and the network between machines are the real ones, and run at full speed; so does the agent's cluster step, which the test calls in
//! a machine. There is no firmware, no TPM and no disk, and systemd's command is a stand-in (`namespaces/systemctl`). Needs root.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::error::{HarnessError, io_error};
use crate::kubernetes::{self, program};
use crate::process::output;
use crate::run::Run;
use crate::service::Service;

/// Starting containerd and giving it its images, on a machine that compiles.
const UP: Duration = Duration::from_mins(5);
/// The machines' addresses are 10.77.0.1 and up.
const PREFIX: &str = "10.77.0";
/// Of the test, among them.
const TEST: u8 = 254;
/// Where machines see this machine's root.
const HOST: &str = "/host";
/// What starts programs that are not static, and where it finds what they need.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: [&str; 4] = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];
/// Whose container images kubeadm asks for.
const REGISTRY: &str = "registry.k8s.io/";

/// What machines share: the root that they begin with, and the network between them.
#[derive(Debug)]
pub struct Namespaces {
    run: Run,
    tree: PathBuf,
    /// Lives as long as the network does.
    switch: Service,
}

/// A machine. What it keeps outlives its power.
#[derive(Debug)]
pub struct Node {
    number: u8,
    directory: PathBuf,
    /// How often it had power: the kernel removes the network of an earlier boot when it likes.
    boots: u32,
    /// Its first process, and with it all others.
    power: Option<Service>,
}

/// Where machines see this machine's files.
pub fn on_host(path: &Path) -> PathBuf {
    PathBuf::from(format!("{HOST}{}", path.display()))
}

/// Why there can be none here, if that is so.
pub fn not_possible() -> Option<String> {
    let possible = output(Command::new("unshare").args(["--net", "ip", "link", "add", "lk0", "type", "veth"]));
    possible.err().map(|error| format!("namespaces need root, unshare (util-linux) and ip (iproute2): {error}"))
}

impl Namespaces {
    /// Unpacks the root and makes the network.
    pub fn new(name: &str) -> Result<Self, HarnessError> {
        let run = Run::new(name)?;
        let tree = run.subdirectory("tree")?;
        fill(&tree)?;
        let mut switch = Command::new("unshare");
        let script = format!(
            "ip link set lo up; ip link add name nodes type bridge; ip link set nodes up; \
             ip address add {}/24 dev nodes; echo network is up; exec sleep infinity",
            address(TEST)
        );
        switch.args(["--net", "sh", "-euc", &script]);
        let switch = Service::spawn(&run, "switch", switch)?;
        switch.console().expect("network is up", UP)?;
        Ok(Self { run, tree, switch })
    }

    /// The test's directory.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// A new machine, `node-NUMBER`, with power.
    pub fn node(&self, number: u8) -> Result<Node, HarnessError> {
        let directory = self.run.subdirectory(&name(number))?;
        let mut node = Node { number, directory, boots: 0, power: None };
        self.power_on(&mut node)?;
        Ok(node)
    }

    /// Gives a machine power.
    pub fn power_on(&self, node: &mut Node) -> Result<(), HarnessError> {
        let name = node.name();
        let mut first = Command::new("unshare");
        first.args(["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]);
        first.arg(script("boot")).args([&self.tree, &node.directory]).arg(&name);
        let power = Service::spawn(&self.run, &name, first)?;
        node.boots += 1;
        let link = format!("node{}-{}", node.number, node.boots);
        // unshare has made the namespaces before it starts anything.
        power.console().expect(&format!("machine {name} is up"), UP)?;
        output(self.in_network("ip").args(["link", "add", &link, "type", "veth", "peer", "name", "eth0"]))?;
        output(self.in_network("ip").args(["link", "set", &link, "master", "nodes", "up"]))?;
        output(self.in_network("ip").args(["link", "set", "eth0", "netns", &power.id().to_string()]))?;
        node.power = Some(power);
        for words in [&format!("address add {}/24 dev eth0", node.address()), "link set eth0 up"] {
            output(node.inside("ip")?.args(words.split(' ')))?;
        }
        Ok(())
    }

    /// A program of this machine in the network of the others.
    pub fn in_network(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.switch.id())).arg("--").arg(program.as_ref());
        command
    }
}

impl Node {
    /// `node-NUMBER`.
    pub fn name(&self) -> String {
        name(self.number)
    }

    /// In the network of the machines.
    pub fn address(&self) -> String {
        address(self.number)
    }

    /// What the machine keeps: `upper` is what differs from the root it began with, `etcd` and `kubelet` are in `/var/lib`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Cuts the power: all processes of the machine are gone when this returns.
    pub fn cut(&mut self) -> Result<(), HarnessError> {
        let Some(power) = self.power.take() else { return Ok(()) };
        let children = format!("/proc/{0}/task/{0}/children", power.id());
        let first = std::fs::read_to_string(&children).map_err(io_error("read", children.as_ref()))?;
        // The kernel lets the first process of a namespace end after all others, and unshare after that.
        let first = first.trim().parse().ok().and_then(Pid::from_raw);
        let first = first.ok_or_else(|| HarnessError::Unusable(format!("{} has no first process", self.name())))?;
        kill_process(first, Signal::KILL).map_err(|error| HarnessError::Unusable(error.to_string()))?;
        power.wait(UP).map(drop)
    }

    /// Forgets all that a machine without power keeps, but its container images.
    pub fn wipe(&self) -> Result<(), HarnessError> {
        for kept in ["upper", "work", "etcd", "kubelet"] {
            let path = self.directory.join(kept);
            std::fs::remove_dir_all(&path).map_err(io_error("remove", &path))?;
        }
        Ok(())
    }

    /// The program that runs now, in that machine.
    pub fn myself(&self) -> Result<Command, HarnessError> {
        let program = std::env::current_exe().map_err(io_error("find", "myself".as_ref()))?;
        // With the libraries of this machine, which may be newer.
        let libraries = LIBRARIES.map(|directory| format!("{HOST}{directory}")).join(":");
        let mut command = self.inside(format!("{HOST}{LOADER}"))?;
        command.args(["--library-path", &libraries]).arg(on_host(&program));
        Ok(command)
    }

    /// A program of that machine.
    pub fn inside(&self, program: impl AsRef<Path>) -> Result<Command, HarnessError> {
        let off = || HarnessError::Unusable(format!("{} has no power", self.name()));
        let first = self.power.as_ref().ok_or_else(off)?.id();
        let mut command = Command::new("nsenter");
        for (namespace, file) in
            [("mount", "mnt"), ("net", "net"), ("uts", "uts"), ("ipc", "ipc"), ("pid", "pid_for_children")]
        {
            command.arg(format!("--{namespace}=/proc/{first}/ns/{file}"));
        }
        command.arg("--").arg(program.as_ref());
        Ok(command)
    }
}

fn name(number: u8) -> String {
    format!("node-{number}")
}

/// The address of a machine.
fn address(number: u8) -> String {
    format!("{PREFIX}.{number}")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("namespaces").join(name)
}

/// The Debian, the programs and container images of a control plane, and the configuration that images bring.
fn fill(tree: &Path) -> Result<(), HarnessError> {
    let (archive, parts) = kubernetes::root_and_parts()?;
    output(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(tree))?;
    for name in ["kubeadm", "kubelet", "kubectl"] {
        install(&program(name)?, &tree.join("usr/bin").join(name))?;
    }
    let balancer = "latchkey-api-balancer";
    install(&crate::build::for_nodes(balancer)?, &tree.join("usr/bin").join(balancer))?;
    install(&script("systemctl"), &tree.join("usr/bin/systemctl"))?;
    let workspace = crate::build::workspace();
    let (images, pause) = images(&parts, tree)?;
    let containerd = workspace.join("image/kubernetes/containerd.toml");
    let containerd = std::fs::read_to_string(&containerd).map_err(io_error("read", &containerd))?;
    // Control groups without systemd; and root need not be so mighty that it protects processes from the kernel's want of memory.
    let of_pods = "[plugins.\"io.containerd.grpc.v1.cri\"]\n";
    let containerd = containerd
        .replace("@PAUSE@", &pause)
        .replace("@CNI@", "/usr/lib/cni")
        .replace("@RUNC@", "/usr/sbin/runc")
        .replace("SystemdCgroup = true", "SystemdCgroup = false")
        .replace(of_pods, &format!("{of_pods}restrict_oom_score_adj = true\n"));
    let balancer = workspace.join("services/api-balancer/api-balancer.example.json");
    let bridge = workspace.join("image/kubernetes/99-latchkey-bridge.conflist");
    for (place, content) in [
        ("etc/containerd/config.toml", containerd),
        (
            "usr/lib/latchkey/api-balancer.json",
            std::fs::read_to_string(&balancer).map_err(io_error("read", &balancer))?,
        ),
        (
            "etc/cni/net.d/99-latchkey-bridge.conflist",
            std::fs::read_to_string(&bridge).map_err(io_error("read", &bridge))?,
        ),
        ("parts/images", images),
    ] {
        let place = tree.join(place);
        place.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", &place))?;
        std::fs::write(&place, content).map_err(io_error("write", &place))?;
    }
    Ok(())
}

fn install(program: &Path, place: &Path) -> Result<(), HarnessError> {
    // A link of the root's leads elsewhere in this process.
    match std::fs::remove_file(place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_error("remove", place)(error)),
        _ => {}
    }
    std::fs::copy(program, place).map_err(io_error("copy", program))?;
    std::fs::set_permissions(place, Permissions::from_mode(0o755)).map_err(io_error("chmod", place))
}

/// Copies the archives; file and reference of each, a line each, and the reference of the one that makes sandboxes.
fn images(parts: &Path, tree: &Path) -> Result<(String, String), HarnessError> {
    let (table, to) = (parts.join("table.json"), tree.join("parts"));
    std::fs::create_dir_all(&to).map_err(io_error("make", &to))?;
    let text = std::fs::read(&table).map_err(io_error("read", &table))?;
    let parsed: Value = serde_json::from_slice(&text)
        .map_err(|error| HarnessError::Unusable(format!("{}: {error}", table.display())))?;
    let (mut lines, mut sandbox) = (String::new(), String::new());
    for image in parsed["versions"][0]["images"].as_array().into_iter().flatten() {
        let (name, tag) = (image["name"].as_str().unwrap_or_default(), image["tag"].as_str().unwrap_or_default());
        let short = name.rsplit('/').next().unwrap_or_default();
        if name.starts_with(REGISTRY) {
            let (file, reference) = (format!("{short}-{tag}.tar"), format!("{name}:{tag}"));
            std::fs::copy(parts.join(&file), to.join(&file)).map_err(io_error("copy", parts))?;
            lines.extend([&file, " ", &reference, "\n"]);
            if short == "pause" {
                sandbox = reference;
            }
        }
    }
    Ok((lines, sandbox))
}
