//! What images carry of Kubernetes, in the root file systems that are made of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use latchkey_api::service_files;
use latchkey_image::kubernetes::{PodNetwork, Service};
use latchkey_image::{ConfigError, Image, ImageCode, ImageConfig, ImageError, Source};
use latchkey_initramfs::elf_sample;
use latchkey_kubernetes::Sha256;
use latchkey_kubernetes::fetch::Origin;
use latchkey_kubernetes::{Role, Roles, Table};
use serde_json::{Value, json};

use crate::disk::build;
use crate::sample::{RELEASE, Sample, found};
use crate::systemd::{archive, contents};

const TOOLS: [&str; 8] = ["mount", "umount", "losetup", "cp", "ip", "iptables", "conntrack", "modprobe"];
const PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// Adds a program to the root.
pub(crate) fn program(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A root with what a node needs but what the table brings, and a folder of components.
pub(crate) fn sample() -> Sample {
    let sample = Sample::new();
    let root = sample.path("root");
    for name in TOOLS {
        program(&root, &format!("usr/sbin/{name}"));
    }
    program(&root, "usr/lib/systemd/systemd");
    symlink("usr/lib", root.join("lib")).unwrap();
    fs::write(root.join("etc/resolv.conf"), "").unwrap();
    let module = format!("usr/lib/modules/{RELEASE}/kernel/net/bridge/br_netfilter.ko.xz");
    fs::create_dir_all(root.join(&module).parent().unwrap()).unwrap();
    fs::write(root.join(module), "a module").unwrap();
    fs::write(sample.path("modules/modules.builtin"), "kernel/fs/overlayfs/overlay.ko\n").unwrap();
    fs::create_dir_all(sample.path("components")).unwrap();
    sample
}

/// A component in the folder, and what the table says of it.
fn component(sample: &Sample, name: &str, version: &str, content: &[u8], install: &Value) -> Value {
    fs::write(sample.path(&format!("components/{name}-{version}")), content).unwrap();
    let sha256 = Sha256::of(content).to_string();
    json!({"name": name, "version": version, "sha256": sha256, "max_bytes": 1 << 20, "install": install})
}

fn packed(names: &[&str]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for name in names {
        let content = format!("the plugin {name}");
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Everything that a node has, small.
pub(crate) fn all(sample: &Sample) -> Vec<Value> {
    let one = |name: &str, version: &str| {
        let content = format!("the program {name}").into_bytes();
        component(sample, name, version, &content, &json!({"file": format!("/usr/bin/{name}")}))
    };
    let members: Vec<Value> =
        PLUGINS.iter().map(|name| json!({"member": name, "to": format!("/opt/cni/bin/{name}")})).collect();
    vec![
        one("kubeadm", "1.34.4"),
        one("kubelet", "1.34.4"),
        one("kubectl", "1.34.4"),
        one("containerd", "2"),
        one("containerd-shim-runc-v2", "2"),
        one("runc", "1"),
        component(sample, "cni", "1", &packed(&PLUGINS), &json!({"tar_gz": members})),
    ]
}

pub(crate) fn table(components: &[Value]) -> String {
    let digest = format!("sha256:{}", Sha256::of(b""));
    let pause = json!({"name": "registry.k8s.io/pause", "tag": "3.10.1", "digest": digest});
    let release = json!({"version": "1.34.4", "components": components, "images": [pause]});
    json!({"schema": 1, "architecture": "x86_64", "versions": [release]}).to_string()
}

fn image(sample: &Sample, components: &[Value]) -> Image {
    image_for(sample, components, Roles::default())
}

fn image_for(sample: &Sample, components: &[Value], roles: Roles) -> Image {
    let table = Table::parse(table(components).as_bytes()).unwrap();
    let origin = Origin::Folder(sample.path("components"));
    let kubernetes = latchkey_image::Kubernetes::new(&table, "1.34".parse().unwrap(), roles, origin).unwrap();
    let mut image = sample.image();
    image.systemd = Some(kubernetes.systemd(serde_json::from_str(r#"{"state": {}}"#).unwrap()).unwrap());
    image.kubernetes = Some(kubernetes);
    image
}

pub(crate) fn refused(image: &Image, sample: &Sample) -> ImageError {
    let error = image.build(&sample.out("refused"), &mut |_| ()).unwrap_err();
    // Nothing is left but the directory.
    assert_eq!(fs::read_dir(sample.out("refused")).map_or(0, Iterator::count), 0);
    error
}

#[test]
fn a_directory_and_an_archive_get_the_same_components_and_units() {
    if found("tar", "tar").is_none() {
        return;
    }
    let one = sample();
    let from_directory = build(&image(&one, &all(&one)), &one.out("a"));
    let other = sample();
    let mut of_archive = image(&other, &all(&other));
    of_archive.root = archive(&other);
    let from_archive = build(&of_archive, &other.out("b"));
    let Some(files) = contents(&one, &from_directory) else { return };
    assert_eq!(Some(&files), contents(&other, &from_archive).as_ref());
    let has = |line: &str| assert!(files.iter().any(|file| file.starts_with(line)), "{line}\n{}", files.join("\n"));
    for name in ["kubeadm", "kubelet", "containerd", "runc"] {
        has(&format!("usr/bin/{name} 100755 {} ", "the program ".len() + name.len()));
    }
    has("opt/cni/bin/host-local 100755 21 ");
    has("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf 100644 ");
    has("usr/lib/systemd/system/multi-user.target.wants/containerd.service -> ../containerd.service");
    has("usr/lib/systemd/system/var-log-pods.mount 100644 ");
    has("etc/cni/net.d/99-latchkey-bridge.conflist 100644 ");
    has("etc/kubernetes/manifests/ 40755");
    // Stage 2 starts it, and nobody before.
    assert!(!files.iter().any(|file| file.contains("target.wants/kubelet.service")));
}

#[test]
fn equal_inputs_give_equal_bytes_and_a_wrong_component_none() {
    let (one, other) = (sample(), sample());
    other.age();
    assert_eq!(
        build(&image(&one, &all(&one)), &one.out("a")).parts,
        build(&image(&other, &all(&other)), &other.out("b")).parts
    );

    let image = image(&one, &all(&one));
    fs::write(one.path("components/kubelet-1.34.4"), "another program").unwrap();
    let error = refused(&image, &one);
    assert_eq!(error.code(), ImageCode::ComponentFailed);
    assert!(error.to_string().contains("components/kubelet-1.34.4: its SHA-256 is "), "{error}");
    fs::remove_file(one.path("components/kubelet-1.34.4")).unwrap();
    assert!(refused(&image, &one).to_string().contains("components/kubelet-1.34.4 is not there"));
}

#[test]
fn the_manifest_names_the_table_and_every_component_by_its_hash() {
    let sample = sample();
    let Some(machines) = crate::manifest::image(&sample) else { return };
    let components = all(&sample);
    let mut image = image(&sample, &components);
    (image.stub, image.machines) = (machines.stub, machines.machines);
    let built = build(&image, &sample.out("a"));
    let text = fs::read_to_string(built.manifest.unwrap()).unwrap();
    assert!(text.contains("\"1.34.4 control-plane,worker\""), "{text}");
    let table = Sha256::of(table(&components).as_bytes()).to_string();
    let kubelet = components[1]["sha256"].as_str().unwrap();
    for (name, sha256) in [("kubernetes-table", table.as_str()), ("kubernetes kubelet 1.34.4", kubelet)] {
        let at = text.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(text[at..].chars().take(300).collect::<String>().contains(sha256), "{name}: {text}");
    }
}

#[test]
fn a_root_s_own_runtime_keeps_its_unit_and_gets_a_drop_in() {
    let sample = sample();
    let root = sample.path("root");
    for path in ["usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/sbin/runc"] {
        program(&root, path);
    }
    for name in PLUGINS {
        program(&root, &format!("usr/lib/cni/{name}"));
    }
    fs::create_dir_all(root.join("etc/cni/net.d")).unwrap();
    fs::write(root.join("etc/cni/net.d/10-mine.conflist"), "{}").unwrap();
    let image = image(&sample, &all(&sample)[..3]);
    let error = refused(&image, &sample);
    assert!(
        error.to_string().contains("the root has no containerd.service, which the root's containerd needs"),
        "{error}"
    );

    fs::create_dir_all(root.join("usr/lib/systemd/system")).unwrap();
    fs::write(root.join("usr/lib/systemd/system/containerd.service"), "[Service]\n").unwrap();
    let built = build(&image, &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    let any = |line: &str| files.iter().any(|file| file.starts_with(line));
    assert!(any("usr/lib/systemd/system/containerd.service 100644 10 "), "its own unit");
    assert!(any("usr/lib/systemd/system/containerd.service.d/50-latchkey.conf 100644 "));
    assert!(any("etc/cni/net.d/10-mine.conflist ") && !any("etc/cni/net.d/99-latchkey-bridge.conflist "));
    let unpacked = sample.path("unpacked");
    let text = |path: &str| fs::read_to_string(unpacked.join(path)).unwrap();
    let config = text("usr/lib/latchkey/containerd.toml");
    for line in [
        "sandbox_image = \"registry.k8s.io/pause:3.10.1\"",
        "bin_dir = \"/usr/lib/cni\"",
        "BinaryName = \"/usr/sbin/runc\"",
    ] {
        assert!(config.contains(line), "{line}: {config}");
    }
    assert!(text("usr/lib/systemd/system/kubelet.service").contains("\nExecStart=/usr/bin/kubelet\n"));
}

/// The image's script on files of its own.
struct PodNetworkScript(tempfile::TempDir);

impl PodNetworkScript {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn lease(&self) -> std::path::PathBuf {
        self.0.path().join("subnet.env")
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("net.d/10-latchkey-flannel.conflist")
    }

    fn run(&self) -> Result<(), String> {
        let script = include_str!("../../kubernetes/pod-network")
            .replace("lease=/run/flannel", &format!("lease={}", self.0.path().display()))
            .replace("directory=/etc/cni/net.d", &format!("directory={}/net.d", self.0.path().display()));
        let done = Command::new("sh").arg("-c").arg(script).output().unwrap();
        if done.status.success() { Ok(()) } else { Err(String::from_utf8(done.stdout).unwrap()) }
    }

    fn network(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }
}

/// What the image's script makes of a lease; or what it says.
fn pod_network(lease: &str) -> Result<Value, String> {
    let script = PodNetworkScript::new();
    fs::write(script.lease(), lease).unwrap();
    match script.run() {
        Ok(()) => Ok(script.network()),
        Err(said) => {
            assert!(!script.file().exists());
            Err(said)
        }
    }
}

#[test]
fn another_lease_is_another_network_of_pods_and_none_is_none() {
    let script = PodNetworkScript::new();
    let subnet = || script.network()["plugins"][0]["ipam"]["ranges"][0][0]["subnet"].clone();
    for number in [3, 7] {
        fs::write(script.lease(), format!("FLANNEL_SUBNET=10.244.{number}.1/24\nFLANNEL_MTU=1450\n")).unwrap();
        script.run().unwrap();
        assert_eq!(subnet(), format!("10.244.{number}.0/24"));
    }
    // The next boot, before the daemon has a lease: what the last one left would give addresses that are another node's by now.
    fs::remove_file(script.lease()).unwrap();
    script.run().unwrap();
    assert!(!script.file().exists());
    // The unit runs again for each lease, and once before containerd does.
    let (path, service) = (
        include_str!("../../kubernetes/latchkey-pod-network.path"),
        include_str!("../../kubernetes/latchkey-pod-network.service"),
    );
    assert!(path.contains("\nPathChanged=/run/flannel/subnet.env\n") && !service.contains("RemainAfterExit"));
    assert!(service.contains("\nBefore=containerd.service\n"));
}

#[test]
fn a_lease_of_flannel_s_becomes_the_network_of_pods_and_nothing_else_does() {
    let lease = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
    let network = pod_network(lease).unwrap();
    assert_eq!(network["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.3.0/24");
    assert_eq!(network["plugins"][0]["mtu"], 1450);
    // As its daemon writes it where nodes have IPv6, too (`WriteSubnetFile`, flannel's `pkg/subnet/subnet.go`), and for IPv6 alone.
    let (both, second) = lease.split_at(lease.find("FLANNEL_MTU").unwrap());
    let second = format!("FLANNEL_IPV6_NETWORK=fd00:10:244::/56\nFLANNEL_IPV6_SUBNET=fd00:10:244:3::1/64\n{second}");
    assert_eq!(pod_network(&format!("{both}{second}")).unwrap(), network);
    assert!(pod_network(&second).unwrap_err().contains("names no IPv4 network of 24 bits"));
    for (bad, said) in [
        ("", "names no IPv4 network of 24 bits"),
        ("FLANNEL_SUBNET=10.244.3.1/24\n", "names no MTU"),
        ("FLANNEL_SUBNET=10.244.3.1/22\nFLANNEL_MTU=1450\n", "names no IPv4 network of 24 bits"),
        ("FLANNEL_SUBNET=$(touch /tmp/x).1.1.1/24\nFLANNEL_MTU=1450\n", "names no IPv4 network of 24 bits"),
        ("FLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450, \"x\": 1\n", "names no MTU"),
        ("FLANNEL_SUBNET=10.1/24\nFLANNEL_MTU=1450\n", "names no IPv4 network of 24 bits"),
    ] {
        let error = pod_network(bad).unwrap_err();
        assert!(error.contains(said), "{bad}: {error}");
    }
}

#[test]
fn with_flannel_no_node_has_a_network_of_pods_before_its_daemon_does() {
    let sample = sample();
    let mut image = image(&sample, &all(&sample));
    image.kubernetes = image.kubernetes.map(|kubernetes| kubernetes.with_pod_network(PodNetwork::Flannel));
    let built = build(&image, &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    let any = |line: &str| files.iter().any(|file| file.starts_with(line));
    assert!(!files.iter().any(|file| file.contains(".conflist")), "{}", files.join("\n"));
    assert!(any("usr/lib/latchkey/pod-network 100755 ") && any("usr/lib/systemd/system/latchkey-pod-network.service "));
    for unit in ["latchkey-pod-network.path", "latchkey-pod-network.service"] {
        assert!(any(&format!("usr/lib/systemd/system/multi-user.target.wants/{unit} -> ../{unit}")), "{unit}");
    }
    // Also without container images: the image before may have had some.
    assert!(any("usr/lib/latchkey/container-images 100755 "));
    assert!(any("usr/lib/systemd/system/latchkey-container-images.service "));
    assert!(any("usr/lib/systemd/system/containerd.service.d/60-latchkey-images.conf "));
}

#[test]
fn control_planes_and_no_workers_look_at_their_certificates_and_register_clusters() {
    let sample = sample();
    let built = build(&image(&sample, &all(&sample)), &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    let any = |line: &str| files.iter().any(|file| file.starts_with(line));
    let system = "usr/lib/systemd/system";
    assert!(any(&format!("{system}/latchkey-certificates.service 100644 ")), "{}", files.join("\n"));
    let wanted = "timers.target.wants/latchkey-certificates.timer -> ../latchkey-certificates.timer";
    assert!(any(&format!("{system}/{wanted}")), "{}", files.join("\n"));
    let unit = |name: &str| fs::read_to_string(sample.path(&format!("unpacked/{system}/{name}"))).unwrap();
    let (service, timer) = (unit("latchkey-certificates.service"), unit("latchkey-certificates.timer"));
    assert!(service.contains("\nExecStart=/usr/bin/latchkey-agent renew-certificates\n"), "{service}");
    // Never beside stage 2, which changes the same files; and not all control planes at once.
    assert!(service.contains("\nAfter=latchkey-agent.service\n"), "{service}");
    assert!(timer.contains("\nOnCalendar=weekly\n") && timer.contains("\nRandomizedDelaySec="), "{timer}");

    // Nor does it register a cluster before stage 2 has noted that it founded one.
    assert!(any(&format!("{system}/multi-user.target.wants/latchkey-enrol.service -> ../latchkey-enrol.service")));
    let enrol = unit("latchkey-enrol.service");
    assert!(enrol.contains("\nExecStart=/usr/bin/latchkey-agent enrol\n"), "{enrol}");
    assert!(enrol.contains("\nConditionPathExists=/etc/kubernetes/latchkey/enrolment.json\n"), "{enrol}");
    assert!(enrol.lines().any(|line| line.starts_with("After=") && line.contains("latchkey-agent.service")), "{enrol}");

    let sample = self::sample();
    let workers = image_for(&sample, &all(&sample), vec![Role::Worker].try_into().unwrap());
    let Some(files) = contents(&sample, &build(&workers, &sample.out("a"))) else { return };
    let units = ["latchkey-certificates", "latchkey-enrol"];
    assert!(!files.iter().any(|file| units.iter().any(|unit| file.contains(unit))), "{}", files.join("\n"));
}

fn with_services(sample: &Sample, roles: Roles, program: &[u8]) -> Image {
    let table = Table::parse(table(&all(sample)).as_bytes()).unwrap();
    let origin = Origin::Folder(sample.path("components"));
    let kubernetes = latchkey_image::Kubernetes::new(&table, "1.34".parse().unwrap(), roles, origin).unwrap();
    let program = || Source::Bytes(program.to_vec());
    let kubernetes = kubernetes.with_service(Service::join(program())).with_service(Service::key(program()));
    let kubernetes = kubernetes.with_service(Service::balancer(program()));
    let mut image = sample.image();
    image.systemd = Some(kubernetes.systemd(serde_json::from_str(r#"{"state": {}}"#).unwrap()).unwrap());
    image.kubernetes = Some(kubernetes);
    image
}

#[test]
fn control_planes_carry_the_services_which_wait_for_their_secrets_on_the_state_disk() {
    let sample = sample();
    let program = elf_sample::static_executable();
    let image = with_services(&sample, Roles::default(), &program);
    let built = build(&image, &sample.out("a"));
    let Some(files) = contents(&sample, &built) else { return };
    let has = |line: &str| assert!(files.iter().any(|file| file.starts_with(line)), "{line}\n{}", files.join("\n"));
    for name in ["join-service", "key-service"] {
        has(&format!("usr/bin/latchkey-{name} 100755 {} ", program.len()));
        has(&format!(
            "usr/lib/systemd/system/multi-user.target.wants/latchkey-{name}.service -> ../latchkey-{name}.service"
        ));
        let unpacked = sample.path("unpacked/usr/lib/systemd/system");
        let unit = fs::read_to_string(unpacked.join(format!("latchkey-{name}.service"))).unwrap();
        assert!(unit.contains("\nDynamicUser=yes\n") && unit.contains(&format!("/usr/bin/latchkey-{name} ")), "{unit}");
        let waits = fs::read_to_string(unpacked.join(format!("latchkey-{name}.service.d/latchkey.conf"))).unwrap();
        let (secret, count) = if name == "join-service" { ("identity.key", 9) } else { ("master.json", 4) };
        assert!(waits.contains(&format!("\nConditionPathExists=/etc/latchkey/{secret}\n")), "{waits}");
        // Each is handed over under its own name, and the configuration, which is measured, names it there.
        let handed: Vec<_> = waits.lines().filter_map(|line| line.strip_prefix("LoadCredential=")).collect();
        assert_eq!((handed.len(), handed[0]), (count + 1, ""), "{waits}");
        for credential in &handed[1..] {
            let (file, from) = credential.split_once(':').unwrap();
            assert!(service_files::NAMES.contains(&file) && from == format!("/etc/latchkey/{file}"), "{credential}");
        }
        has(&format!("usr/lib/latchkey/{name}.json 100644 "));
        let configuration = fs::read_to_string(sample.path(&format!("unpacked/usr/lib/latchkey/{name}.json"))).unwrap();
        let place = format!("/run/credentials/latchkey-{name}.service/");
        for named in configuration.split('"').filter_map(|text| text.strip_prefix(&place)) {
            assert!(handed.iter().any(|credential| credential.starts_with(&format!("{named}:"))), "{named}");
        }
        assert!(waits.contains(&format!("--config /usr/lib/latchkey/{name}.json\n")), "{waits}");
    }
    has("usr/lib/systemd/system/etc-latchkey.mount 100644 ");
    // On every node, with a configuration that is the same for all.
    has(&format!("usr/bin/latchkey-api-balancer 100755 {} ", program.len()));
    has("usr/lib/latchkey/api-balancer.json 100644 ");
    assert!(!files.iter().any(|file| file.starts_with("usr/lib/systemd/system/latchkey-api-balancer.service.d")));

    let workers = with_services(&sample, vec![Role::Worker].try_into().unwrap(), &program);
    assert!(refused(&workers, &sample).to_string().contains("join-service: \"roles\" has no control-plane"));
    let script = with_services(&sample, Roles::default(), b"#!/bin/sh");
    let error = refused(&script, &sample);
    assert!(error.to_string().contains("join-service: ") && error.remedy().contains("musl"), "{error}");
}

#[test]
fn a_root_that_has_what_is_added_or_lacks_what_is_needed_is_refused_by_name() {
    for path in ["usr/bin/kubelet", "usr/bin/runc", "usr/lib/systemd/system/kubelet.service"] {
        let sample = sample();
        program(&sample.path("root"), path);
        let error = refused(&image(&sample, &all(&sample)), &sample);
        assert_eq!(error.code(), ImageCode::RootUnusable);
        assert!(error.to_string().contains(&format!("the root has /{path} already")), "{error}");
    }
    for (path, said) in [
        (
            "usr/sbin/iptables",
            "the root has no iptables in /usr/sbin, /usr/bin or /usr/local, which the network of pods needs",
        ),
        ("usr/sbin/conntrack", "the root has no conntrack"),
        ("usr/sbin/mount", "the root has no mount"),
        ("usr/lib/systemd/systemd", "the root has no /usr/lib/systemd/systemd"),
        ("etc/resolv.conf", "the root has no /etc/resolv.conf, which every pod needs"),
        (
            &format!("usr/lib/modules/{RELEASE}/kernel/net/bridge/br_netfilter.ko.xz"),
            "no module br_netfilter in /lib/modules/6.1.0-sample",
        ),
    ] {
        let sample = sample();
        fs::remove_file(sample.path("root").join(path)).unwrap();
        let error = refused(&image(&sample, &all(&sample)), &sample);
        assert_eq!(error.code(), ImageCode::RootUnusable);
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!(!error.remedy().is_empty());
    }
    let sample = sample();
    let without = |name: &str| all(&sample).into_iter().filter(|one| one["name"] != name).collect::<Vec<_>>();
    for (name, said) in [
        ("kubectl", "the root has no kubectl in"),
        ("containerd", "the root has no containerd in"),
        ("containerd-shim-runc-v2", "the root has no containerd-shim-runc-v2 in"),
        ("runc", "the root has no runc in"),
        ("cni", "the root has no bridge, host-local, loopback and portmap together in /usr/lib/cni or /opt/cni/bin"),
    ] {
        let error = refused(&image(&sample, &without(name)), &sample);
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    // An iptables that is a link, through another, as Debian has it, is one.
    let root = sample.path("root");
    fs::rename(root.join("usr/sbin/iptables"), root.join("usr/sbin/xtables-nft-multi")).unwrap();
    fs::create_dir_all(root.join("etc/alternatives")).unwrap();
    symlink("/usr/sbin/xtables-nft-multi", root.join("etc/alternatives/iptables")).unwrap();
    symlink("/etc/alternatives/iptables", root.join("usr/sbin/iptables")).unwrap();
    build(&image(&sample, &all(&sample)), &sample.out("links"));
}

#[test]
fn a_configuration_says_the_minor_version_and_has_a_state_disk() {
    let sample = sample();
    fs::write(sample.path("table.json"), table(&all(&sample))).unwrap();
    let configured = |kubernetes: Value, systemd: Value| {
        let config = json!({
            "schema": 1, "name": "edge", "version": "1.0.0", "kernel": "k", "modules": "m", "agent": "a", "root": "r",
            "command_line": "", "machines": [], "kubernetes": kubernetes, "systemd": systemd,
        });
        let config = ImageConfig::parse(config.to_string().as_bytes())?;
        config.image(&sample.path(""))
    };
    let said = |kubernetes, systemd| -> String {
        let error: ConfigError = configured(kubernetes, systemd).unwrap_err();
        error.to_string()
    };
    let state = || json!({"state": {}});
    let good = json!({"version": "1.34", "components": "components", "table": "table.json"});
    let image = configured(good.clone(), state()).unwrap();
    let lasting = image.systemd.unwrap().state.unwrap().persist;
    assert!(lasting.directories().iter().any(|one| one.path() == "/var/log/pods"));
    let wider = json!({"state": {"persist": ["/var/log", "/srv"]}});
    let lasting = configured(good.clone(), wider).unwrap().systemd.unwrap().state.unwrap().persist;
    let paths: Vec<&str> = lasting.directories().iter().map(latchkey_image::systemd::StateDirectory::path).collect();
    assert_eq!(
        paths,
        [
            "/etc/cni/net.d",
            "/etc/kubernetes",
            "/srv",
            "/var/lib/containerd",
            "/var/lib/etcd",
            "/var/lib/kubelet",
            "/var/log"
        ]
    );
    for (kubernetes, systemd, text) in [
        (json!({"version": "1.34.4"}), state(), "say 1.34"),
        (json!({"version": "1.20"}), state(), "Kubernetes 1.20 is too old: the version table has 1.33, 1.34, 1.35"),
        (json!({"version": "1.35", "table": "table.json"}), state(), "which has 1.34"),
        (json!({"version": "1.34", "roles": []}), state(), "roles: name control-plane, worker or both"),
        (json!({"version": "1.34", "components": "ftp://mirror"}), state(), "is no address like https://HOST/PATH"),
        (json!({"version": "1.34", "table": "nowhere"}), state(), "nowhere: No such file"),
        (json!({"version": "1.34", "patch": 4}), state(), "unknown field `patch`"),
        (good.clone(), json!({}), "\"systemd\" has no \"state\""),
        (good.clone(), Value::Null, "\"systemd\" has no \"state\""),
        (good.clone(), json!({"in_root": true, "state": {}}), "\"in_root\": true"),
        (good, json!({"state": {"persist": ["/var/lib/etcd/member"]}}), "the first is enough"),
    ] {
        let error = said(kubernetes, systemd);
        assert!(error.contains(text), "{text}: {error}");
    }
}
