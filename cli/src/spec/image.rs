//! `latchkey image`, in the table.

use super::{Command, Flag, Need, Operand};
use crate::image;

const CONFIG: Operand = Operand { name: "CONFIG", required: true, text: "what the image is made of: JSON, as above" };
const OUT: Flag = Flag {
    long: "out",
    value: Some("DIR"),
    need: Need::Once,
    text: "where the files go: NAME_VERSION.raw (the disk), NAME_VERSION.efi,\nreference.json; files of these names are replaced, and those that this\nbuild does not make are removed",
};

pub(super) const BUILD: Command = Command {
    path: &["image", "build"],
    operands: &[CONFIG],
    flags: &[
        OUT,
        Flag {
            long: "for",
            value: Some("CLOUD"),
            need: Need::AnyNumber,
            text: "aws, gcp, azure, openstack, hetzner or qemu: with the drivers, console and metadata of\nthere, and the disk in the form that it takes; as \"clouds\" in CONFIG",
        },
    ],
    summary: "builds an operating system image",
    about: ABOUT,
    examples: &[
        "latchkey image build edge.json --out build",
        "latchkey image build edge.json --out build --for aws --for azure",
    ],
    run: image::build,
};

pub(super) const UNITS: Command = Command {
    path: &["image", "units"],
    operands: &[CONFIG],
    flags: &[Flag { text: "the directory to write them into; must not exist", ..OUT }],
    summary: "writes what systemd needs, for a root of your own",
    about: "CONFIG is that of `latchkey image build`, with \"systemd\". The files, the agent among\nthem, go into the root as they lie in DIR, all owned by root. Say \"in_root\": true in\n\"systemd\" when they are there, and build.",
    examples: &["latchkey image units edge.json --out units"],
    run: image::units,
};

pub(super) const CONTAINER: Command = Command {
    path: &["image", "container"],
    operands: &[Operand {
        name: "PROGRAM",
        required: true,
        text: "a static executable for x86-64, such as a service of ours built for musl",
    }],
    flags: &[
        Flag {
            long: "name",
            value: Some("REFERENCE"),
            need: Need::Once,
            text: "what the image is called: REGISTRY/REPOSITORY:TAG",
        },
        Flag {
            long: "out",
            value: Some("FILE"),
            need: Need::Once,
            text: "the archive to write, an OCI image layout; a file of this name is replaced",
        },
        Flag {
            long: "helper",
            value: Some("FILE"),
            need: Need::AtMostOnce,
            text: "latchkey-kerberos-helper, for krb-keys: it and the libraries of MIT Kerberos on this\nmachine go into the image, too",
        },
    ],
    summary: "makes a container image of one program",
    about: "For those who run a service as a pod instead of from the verified root: nothing measures\nit then, and whoever can change the pod has its secrets. The image has the program and\nnothing else, and equal programs give equal bytes: the digest that is printed is what a\npod is pinned by. `skopeo copy oci-archive:FILE docker://REFERENCE` brings it to a\nregistry, `ctr --namespace k8s.io images import FILE` to a node.",
    examples: &["latchkey image container latchkey-key-service --name registry.example/k:1 --out k.tar"],
    run: image::container,
};

const ABOUT: &str = r#"
Makes a disk with a boot partition (one unified kernel image: boot stub, kernel,
initramfs, command line), a read-only root file system, its dm-verity hash tree, and
room for the state disk. The command line names the root's hash, so that whoever
measures it has measured everything. Beside it lies the reference manifest: what
machines will measure, for `latchkey policy new` and the join service.

Equal inputs give equal bytes. No privileges, loop devices or mounts are needed;
mksquashfs is (Debian package squashfs-tools; for erofs erofs-utils, for qcow2
qemu-utils). Times in the image are 0, or SOURCE_DATE_EPOCH if that is set.

CONFIG is closed; paths in it are relative to its directory:
  {
    "schema": 1, "name": "edge", "version": "1.0.0",
    "kernel": "boot/vmlinuz-6.1.0-56-cloud-amd64",
    "modules": "lib/modules/6.1.0-56-cloud-amd64",
    "agent": "latchkey-agent", "root": "root.tar",
    "command_line":
    "latchkey.metadata=qemu latchkey.cluster_step=command latchkey.command=/bin/step"
  }
latchkey.command is a program of the root that makes the machine part of the cluster.
A node joins by itself only if command_line has latchkey.join_service=HOST:PORT and the
latchkey.join_service_key=sha256:HASH that `latchkey-join-service --new-key` prints; a
first node reads its init secret's hash only if latchkey.metadata is set. An image with
neither is refused, unless it says that it is for machines that have their disks
already: "recover_only": true.
root is a directory, a tar archive (plain, xz, zstd), or a finished squashfs or erofs.
The first two are looked into: latchkey.init and latchkey.command must be there, and
/dev, /proc, /run and /sys; log-ins and shells on consoles and accounts without a
password are warned about.
agent is a static executable: cargo build --release -p latchkey-agent
--target x86_64-unknown-linux-musl makes it.
What may stand there too, with its default: module_names [what Debian's cloud kernels
need], stub [/usr/lib/systemd/boot/efi/linuxx64.efi.stub], root_format [squashfs],
compression [zstd; lz4 for erofs], os_release [the root's], esp_size [what is needed],
state_size [16777216; at least 4194304], qcow2 [false], and:
  "clouds": ["aws", "gcp", "azure", "openstack", "hetzner", "qemu"]
      where the image is brought to: drivers of there, consoles, latchkey.metadata=auto
      (unless command_line says something else), and the disk as they take it,
      NAME_VERSION.qcow2, .vhd (fixed, whole MiB) or .tar.gz (disk.raw, whole GiB);
      printed is how their own commands upload it. One image may be for all of them
  "systemd": {"state": {"file_system": "ext4", "persist": ["/etc/kubernetes", "/srv"]}}
      for a root that systemd runs (latchkey.init=/lib/systemd/systemd): the agent as
      a unit; no log-ins, shells or measurements of systemd's own; with state, a file
      system on the state disk, made once, checked and mounted at /state, and the
      directories of persist, which last; {"state": {}} is ext4 and what kubeadm needs:
      /etc/kubernetes, /etc/cni/net.d and kubelet, etcd and containerd in /var/lib.
      A finished root: `latchkey image units`
  "kubernetes": {"version": "1.34", "roles": ["control-plane", "worker"],
                 "components": "parts", "images": "parts", "table": "versions.json"}
      what nodes of Kubernetes carry, in the root: kubeadm, kubelet, container runtime,
      network plugins, units, kernel settings (with latchkey.cluster_step=kubeadm).
      version is a minor one; roles [both]; components a folder that `latchkey
      kubernetes fetch` filled, or a mirror [official addresses]; images the same, with
      an archive NAME-TAG.tar of each container image that the table names: these are
      in the root, unpacked, and containerd has them at boot [registries];
      container_images archives of further ones, which go there, too: as `latchkey image
      container` or `docker save` writes them, each with its name [none]; table [that
      of this program]; pod_network bridge (one on each node) or flannel (with the chart
      charts/flannel) [bridge]; join_service and key_service programs that control
      planes run after `latchkey init --services inside` [none]; api_balancer the
      program of a balancer to the API servers, for every node [none]. Needs "systemd"
      with "state"; what must last is added to persist. A root that has one of the
      files, or lacks a program that a node needs, is refused
  "secure_boot": {"key": "sb.key", "certificate": "sb.pem",
                  "variables": "/usr/share/OVMF/OVMF_VARS_4M.fd"}
      signs the image; NAME_VERSION.PK.esl, .KEK.esl and .db.esl are what to enroll, and
      with variables (an empty store) NAME_VERSION.vars.fd has it enrolled.
      platform_certificate and exchange_certificate [certificate] go into PK and KEK.
  "machines": ["debian-12-ovmf",
               {"name": "edge", "secure_boot": "on", "variables": …}]
      the types of machines that reference.json is for [debian-12-ovmf, debian-13-ovmf;
      with secure_boot.variables, OVMF with these]; naming one whose Secure Boot is off
      admits machines that have it off
      a description may say which SEV-SNP guests of QEMU are such machines; their launch
      digests stand in reference.json too, for policies with a section `snp`. firmware
      is the file that -bios gets:
        "snp": {"firmware": "OVMF.amdsev.fd", "vcpus": [1, 2, 4],
                "vcpu_type": "EPYC-v4", "guest_features": "0x1", "kernel_hashes": true}
      kernel_hashes are those of a direct boot ("boot": "qemu-kernel"; -kernel with
      NAME_VERSION.efi, no -initrd, no -append): only with them does a digest name the
      image. vcpu_type [EPYC-v4] and guest_features [0x1] may be left out
      or that machines of this type may be TDX guests; what RTMR 2 will be stands in
      reference.json then, for policies whose section `tdx` says "rtmrs": "manifest":
        "tdx": {"kernel_measures": "tpm"}
      tpm: the firmware shows the kernel a TPM, and what the boot stub (257) measures
      is in RTMR 2; cc: it shows none, and the kernel (6.9 or newer) measures there too
      with "separator": "rtmr0" or "rtmr1" and "boot": "qemu-kernel" it is RTMR 1, too:
      in which register the firmware's separator is; no device has an option ROM then
  "serial": 7
      the manifest's revision, which must grow [SOURCE_DATE_EPOCH, at least 1]
  "signing_key": "release.key"
      a minisign key without a password that signs it, into reference.json.minisig
"#;
