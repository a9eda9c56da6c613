//! A real Debian behind the agent: systemd, udev and a file system on the state disk, in images that the builder prepared.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_qemu_tests::debian::{DebianRoot, Step};
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, WAITS};
use latchkey_qemu_tests::operator::{address, ek};
use latchkey_qemu_tests::vm::Vm;
use serde_json::json;

/// The cluster step: a founder and a joiner write where kubeadm would, a member shows that it is still there.
const HOOK: &str = r#"#!/bin/sh
file=/etc/kubernetes/pki/data
cat > /dev/null
if [ "$1" != start ]; then
    mkdir -p ${file%/*}
    head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' > $file
    sync -f $file
fi
echo "data $(cat $file)" >&2
[ "$1" != init ] || echo "admin of the test cluster"
"#;
/// What the system says of itself.
const SHOW: &str = r#"
for i in 11 15; do echo OS pcr $i $(cat /sys/class/tpm/tpm0/pcr-sha256/$i); done
for unit in $(systemctl list-units --state=failed --plain --no-legend | cut -d ' ' -f 1); do echo OS failed unit $unit; done
for unit in dev-mapper-state.device latchkey-agent.service etc-kubernetes.mount 'var-lib-a\x2db.mount'; do
    echo OS unit $unit $(systemctl is-active "$unit")
done
cat /proc/[0-9]*/comm | sed 's/^/OS process /'
echo OS directory $(findmnt -n -o SOURCE,FSTYPE /etc/kubernetes)
echo OS state $(findmnt -n -o SOURCE,FSTYPE,OPTIONS /state)
ls /run/latchkey/handover.json 2> /dev/null && echo OS hand-over is there || echo OS hand-over is gone
ls -d /run/credentials/@system 2> /dev/null && echo OS credentials are there || echo OS credentials are none
ls -d /boot/* /efi/* /mnt/* 2> /dev/null | sed 's/^/OS mounted /'
"#;
/// Asks a shell or a log-in, whoever's it is, to say that it is there.
const ARE_YOU_THERE: &str = "\n\nroot\n\necho SHELL $((6 * 7))\n";
/// Unmeasured, from the host: a user's password, and something to look for.
const CREDENTIALS: [&str; 4] = [
    "-smbios",
    "type=11,value=io.systemd.credential:passwd.plaintext-password.root=open",
    "-smbios",
    "type=11,value=io.systemd.credential:probe=from the host",
];

fn fleet(name: &str, words: &str, then: &str) -> Fleet {
    // A directory that kubeadm uses, and one with a name that units write otherwise.
    let systemd = json!({"state": {"persist": ["/etc/kubernetes", "/var/lib/a-b"]}});
    let debian = Some(DebianRoot { systemd, step: Step::Hook(HOOK) });
    let words = format!("latchkey.init=/lib/systemd/systemd {words}");
    let then = format!("{SHOW}\n{then}\necho OS up");
    Fleet::planned(name, Plan { words: &words, then: &then, debian, ..Plan::default() }).unwrap()
}

fn data(node: &Vm, step: &str) -> String {
    let data = node.console().value(&format!("{step}: data ")).unwrap();
    assert_eq!(data.len(), 32, "{data}");
    data
}

/// Waits until stage 2 is done and the system has shown itself, and looks at it.
fn is_up(fleet: &Fleet, node: &mut Vm) {
    node.expect(MEMBER, STEP).unwrap();
    node.type_in(ARE_YOU_THERE).unwrap();
    node.expect("OS up", STEP).unwrap();
    let console = node.console();
    let text = console.text();
    let has = |line: &str| assert!(console.contains(line), "{line}\n{text}");
    let lacks = |line: &str| assert!(!console.contains(line), "{line}\n{text}");

    // PCR 15 is the lock and nothing else; PCR 11 is the image's, as the manifest has it, in whatever phase of the boot.
    let value = |line: &str| console.value(line).unwrap().to_lowercase();
    assert_eq!(value("OS pcr 15 "), value("lock: PCR 15 is "));
    let predicted = &fleet.image().values.images()[0].machines()[0].pcrs()[&11].value;
    assert_eq!(value("OS pcr 11 "), predicted.to_string());

    for unit in ["dev-mapper-state.device", "latchkey-agent.service", "etc-kubernetes.mount", "var-lib-a\\x2db.mount"] {
        has(&format!("OS unit {unit} active"));
    }
    lacks("OS failed unit");
    has("OS directory /dev/mapper/state[/etc/kubernetes] ext4");
    has("OS state /dev/mapper/state ext4 rw,nosuid,nodev");
    has("OS hand-over is gone");
    has("OS credentials are none");
    has("OS process systemd-journal");
    for process in ["agetty", "login", "sulogin", "bash", "latchkey-agent"] {
        lacks(&format!("OS process {process}"));
    }
    lacks("OS mounted");
    lacks("SHELL 42");
    lacks("login:");
}

#[test]
#[ignore = "makes a Debian, once, with mmdebstrap; ./dev e2e debian"]
fn a_debian_is_born_and_one_joins_and_rejoins_after_a_power_cut_with_what_it_wrote() {
    let fleet = fleet("debian", "", "");
    let first = fleet.machine("node-1").unwrap().arguments(&CREDENTIALS);
    let mut first = first.start().unwrap();
    first.expect(WAITS, STEP).unwrap();

    // The operator leaves while the system starts, so that the node is there to be asked until they come back.
    let arguments = fleet.init_arguments(&first);
    let init = fleet.cli_in_background("init", &arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    first.expect("/lib/systemd/systemd takes over", STEP).unwrap();
    init.stop().unwrap();
    first.expect("report: begin", STEP).unwrap();
    let cluster = first.console().value("\"cluster_id\":\"").unwrap();
    let cluster = cluster.split('"').next().unwrap();
    let (policy, reference) = (fleet.path("policy.json"), fleet.path("reference.json"));
    let verify = ["verify", &address(&first), "--policy", &policy, "--reference", &reference, "--locked", cluster];
    let ek = ek(&first);
    let verify = [&verify[..], &["--ek", &ek]].concat();
    fleet.cli(&verify).unwrap().success("verify").unwrap();
    fleet.init(&first).unwrap().success("init").unwrap();
    is_up(&fleet, &mut first);
    drop(first);

    let _services = fleet.services().unwrap();
    let mut second = fleet.machine("node-2").unwrap().start().unwrap();
    second.expect("report: the join service knows", STEP).unwrap();
    is_up(&fleet, &mut second);
    let written = data(&second, "cluster-step");
    second.restart().unwrap();
    is_up(&fleet, &mut second);
    assert_eq!(data(&second, "start-member"), written);
    assert!(!second.console().contains("making ext4"));
}

#[test]
#[ignore = "makes a Debian, once, with mmdebstrap; ./dev e2e debian"]
fn with_an_authenticated_disk_too_and_a_damaged_file_system_of_a_member_is_not_made_anew() {
    // The second boot overwrites the superblock, below the mounted file system.
    let then = "if [ -e /etc/kubernetes/second ]; then
    dd if=/dev/zero of=/dev/mapper/state bs=64k count=1 oflag=direct conv=notrunc 2> /dev/null && echo OS broke it
fi
touch /etc/kubernetes/second; sync";
    let fleet = fleet("debian-auth", "latchkey.state_integrity=hmac-sha256", then);
    let (_services, mut node) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    node.expect("OS up", STEP).unwrap();
    let written = data(&node, "cluster-step");
    node.restart().unwrap();
    is_up(&fleet, &mut node);
    assert_eq!(data(&node, "start-member"), written);
    assert!(node.console().contains("OS broke it"));

    node.restart().unwrap();
    node.expect("latchkey: state: failed: no usable ext4 on the disk of a member (found: nothing)", STEP).unwrap();
    node.expect("latchkey: state: failed: state-unusable", STEP).unwrap();
    node.wait_exit(STEP).unwrap();
    assert!(!node.console().contains("making ext4") && !node.console().contains("start-member: begin"));
}
