//! The harness proves itself: real machines with a stand-in for the agent that shows what was measured.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use latchkey_boot_formats::{Guid, partition_type};
use latchkey_image::gpt;
use latchkey_qemu_tests::bootimage::BootImage;
use latchkey_qemu_tests::hardware::Disk;
use latchkey_qemu_tests::machine::{HOST, Machine};
use latchkey_qemu_tests::ports::Port;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::rootfs::RootFs;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::swtpm::{Authority, TpmState};
use latchkey_qemu_tests::vm::Vm;

/// A boot takes 6 s without KVM on a quiet machine; this is for a slow and loaded one.
const BOOT: Duration = Duration::from_mins(10);

fn probe(addition: &str) -> BootImage {
    probe::image(addition).unwrap()
}

fn image(run: &Run, name: &str, probe: &BootImage) -> PathBuf {
    probe.build(run, name).unwrap()
}

fn tpm(run: &Run, name: &str) -> TpmState {
    Authority::new(run).unwrap().tpm(name).unwrap()
}

fn finish(mut vm: Vm) -> Vm {
    vm.expect(probe::DONE, BOOT).unwrap();
    vm.wait_exit(BOOT).unwrap();
    vm
}

fn measure(run: &Run, name: &str, image: &Path) -> BTreeMap<u8, String> {
    probe::pcrs(&finish(Machine::new(run, name, image).tpm(&tpm(run, name)).start().unwrap())).unwrap()
}

/// What the unchanged image measures, on a machine of its own.
fn honest() -> &'static BTreeMap<u8, String> {
    static HONEST: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    HONEST.get_or_init(|| measure_alone("honest", &probe("")))
}

/// Makes the image, and boots it on a machine of its own.
fn measure_alone(name: &str, probe: &BootImage) -> BTreeMap<u8, String> {
    let run = Run::new(name).unwrap();
    measure(&run, name, &image(&run, "uki.efi", probe))
}

#[test]
fn same_image_gives_the_same_measurements_on_two_machines() {
    let one = honest();
    assert_eq!(one, &measure_alone("same-image", &probe("")));
    let unused = "0".repeat(64);
    assert_eq!(one[&15], unused, "nothing but the node lock may use PCR 15");
    assert!([4, 9, 11].iter().all(|index| one[index] != unused), "{one:?}");
}

#[test]
fn changed_command_line_changes_the_measurements() {
    let changed = measure_alone("command-line", &probe("").words("latchkey.evil=1"));
    for index in [4, 9, 11] {
        assert_ne!(honest()[&index], changed[&index], "PCR {index}");
    }
}

#[test]
fn changed_initramfs_changes_the_measurements() {
    let changed = measure_alone("initramfs", &probe("").file("etc/backdoor", 0o644, b"x".to_vec()));
    for index in [4, 9, 11] {
        assert_ne!(honest()[&index], changed[&index], "PCR {index}");
    }
}

#[test]
fn every_module_loads_in_the_order_given() {
    let run = Run::new("modules").unwrap();
    let image = image(&run, "uki.efi", &probe("echo PROBE loaded $(cut -d' ' -f1 /proc/modules)"));
    let vm = finish(Machine::new(&run, "node", &image).tpm(&tpm(&run, "node")).start().unwrap());
    assert!(!vm.console().contains("PROBE refused"), "{}", vm.console().text());
    let loaded = vm.console().value("PROBE loaded ").unwrap();
    for module in ["dm_crypt", "dm_verity", "squashfs", "erofs", "overlay", "virtio_blk", "virtio_net"] {
        assert!(loaded.split_whitespace().any(|name| name == module), "{module} is not among {loaded}");
    }
}

#[test]
fn disk_and_tpm_survive_a_crash_and_metadata_and_network_arrive() {
    let run = Run::new("survive").unwrap();
    let addition = format!(
        "cat /sys/firmware/qemu_fw_cfg/by_name/opt/latchkey/metadata.json/raw; echo
echo PROBE disk $(dd if=/dev/vda bs=16 count=1 2>/dev/null) serial $(cat /sys/block/vda/serial)
ifconfig lo 127.0.0.1; ifconfig eth0 10.0.2.15
nc {HOST} $(sed 's/.*latchkey.port=//; s/ .*//' /proc/cmdline) < /dev/null
echo from the guest | nc -l -p 8080 & server=$!
until netstat -ltn | grep -q :8080; do :; done
echo PROBE READY
wait $server
printf 'written at boot!' | dd of=/dev/vda bs=16 count=1 conv=fsync 2>/dev/null
echo PROBE wrote
read forever < /dev/console"
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Whether somebody comes, the console shows, with a deadline.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"PROBE from the host\n").unwrap();
        }
    });
    let image = image(&run, "uki.efi", &probe(&addition).words(&format!("latchkey.port={port}")));
    let disk = run.disk("state.img", 16 << 20).unwrap();
    let machine = Machine::new(&run, "node", &image).tpm(&tpm(&run, "node")).disk(Disk::new(&disk, "state"));
    let metadata = serde_json::json!({"name": "node-1"});
    let mut vm = machine.forward(Port::choose().unwrap(), 8080).metadata(&metadata).unwrap().start().unwrap();

    for boot in 1..=2 {
        vm.expect(r#"{"name":"node-1"}"#, BOOT).unwrap();
        let line = vm.expect("PROBE disk ", BOOT).unwrap().text;
        assert!(line.ends_with("serial state"), "{line}");
        assert_eq!(line.contains("written at boot!"), boot == 2, "{line}");
        vm.expect("PROBE from the host", BOOT).unwrap();
        vm.expect("PROBE READY", BOOT).unwrap();
        let mut stream = std::net::TcpStream::connect(vm.address(8080).unwrap()).unwrap();
        stream.set_read_timeout(Some(BOOT)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        assert!(received.contains("from the guest"), "{received}");
        vm.expect("PROBE wrote", BOOT).unwrap();
        vm.kill();
        assert!(!vm.is_running());
        if boot == 1 {
            vm.restart().unwrap();
        }
    }
}

#[test]
fn the_operating_system_starts_from_a_labelled_partition() {
    let run = Run::new("partition").unwrap();
    // In the place of the agent: a program that shows how it was called.
    let agent = b"#!/bin/sh\necho AGENT called with $*\nexit 7\n".to_vec();
    let then = "echo OS root is $(cut -d' ' -f1-3 /proc/mounts | grep ' / ')\npoweroff -f";
    let root = RootFs::operating_system(agent, then).unwrap();
    let squashfs = std::fs::read(root.build(&run, "root.img").unwrap()).unwrap();
    let partition =
        |label, kind, id, content| gpt::Partition { label, kind, id: Guid::from_text_order([id; 16]), content };
    let partitions = vec![
        partition("latchkey-root", partition_type::ROOT_X86_64, 1, gpt::Content::Bytes(&squashfs)),
        partition("latchkey-state", partition_type::STATE, 2, gpt::Content::Empty(8 << 20)),
    ];
    let disk = run.partitioned_disk("disk.img", &gpt::Disk { id: Guid::from_text_order([9; 16]), partitions }).unwrap();
    let addition = "for i in 1 2; do echo PROBE part $i $(cat /sys/block/vda/vda$i/uevent) size $(cat /sys/block/vda/vda$i/size); done
mount -t squashfs -o ro /dev/vda1 /newroot || poweroff -f
for moved in proc sys dev; do mount --move /$moved /newroot/$moved; done
exec switch_root /newroot /sbin/init";
    let image = image(&run, "uki.efi", &probe(addition));
    let machine = Machine::new(&run, "node", &image).tpm(&tpm(&run, "node")).disk(Disk::new(&disk, "root").read_only());
    let mut vm = machine.start().unwrap();
    let one = vm.expect("PROBE part 1 ", BOOT).unwrap().text;
    assert!(one.contains("PARTNAME=latchkey-root"), "{one}");
    let two = vm.expect("PROBE part 2 ", BOOT).unwrap().text;
    assert!(two.contains("PARTNAME=latchkey-state") && two.ends_with("size 16384"), "{two}");
    vm.expect("AGENT called with stage2", BOOT).unwrap();
    vm.expect("OS stage2 7", BOOT).unwrap();
    vm.expect("OS root is /dev/vda1 / squashfs", BOOT).unwrap();
    vm.wait_exit(BOOT).unwrap();
}
