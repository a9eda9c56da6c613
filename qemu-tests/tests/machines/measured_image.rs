//! The life of nodes whose only disk is the built image: what was predicted of it admits them, and their state has room.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_attestation::ReferenceValues;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, PAUSED, Plan, STEP, WAITS, WHOLE_DISK};
use latchkey_qemu_tests::operator::address;
use latchkey_qemu_tests::rootfs::{Form, SHOW_ROOT};
use latchkey_qemu_tests::vm::Vm;

/// Prints the size of the opened state disk, in sectors of 512 bytes.
const SHOW_STATE: &str = "for d in /sys/class/block/dm-*; do
    [ $(cat $d/dm/name) = state ] && echo OS state has $(cat $d/size) sectors
done";

fn data(node: &Vm, step: &str) -> String {
    node.console().value(&format!("{step}: data ")).unwrap()
}

fn state_size(node: &Vm) -> u64 {
    node.expect("OS state has", STEP).unwrap();
    let sectors = node.console().value("OS state has ").unwrap();
    sectors.trim_end_matches(" sectors").parse::<u64>().unwrap() * 512
}

#[test]
fn nodes_are_born_join_and_rejoin_on_one_disk_whose_state_partition_grew_to_its_end() {
    let fleet = Fleet::with("one-disk", "", SHOW_STATE).unwrap();
    let first = fleet.machine_with_one_disk("node-1", fleet.image()).unwrap().start().unwrap();
    first.expect(WAITS, STEP).unwrap();

    // What is recorded from this boot is what was predicted, and admits it as well.
    fleet.record(&first).unwrap();
    let recorded = ReferenceValues::from_json(&std::fs::read(fleet.path("recorded.json")).unwrap()).unwrap();
    let [recorded, predicted] =
        [&recorded, &fleet.image().values].map(|values| values.images()[0].machines()[0].clone());
    for (index, reference) in predicted.pcrs() {
        assert_eq!(recorded.pcrs()[index].value, reference.value, "PCR {index}");
    }
    let (policy, reference) = (fleet.path("recorded-policy.json"), fleet.path("recorded.json"));
    let verify = ["verify", &address(&first), "--policy", &policy, "--reference", &reference];
    fleet.cli(&verify).unwrap().success("verify").unwrap();

    fleet.init(&first).unwrap().success("init").unwrap();
    first.expect(MEMBER, STEP).unwrap();
    let size = state_size(&first);
    let image = std::fs::metadata(&fleet.image().disk).unwrap().len();
    // All that the disk is larger than the image; a MiB is alignment and the second partition table.
    assert!(size > WHOLE_DISK - image, "{size} of {WHOLE_DISK} bytes, the image has {image}");
    drop(first);

    let _services = fleet.services().unwrap();
    let mut second = fleet.machine_with_one_disk("paused", fleet.image()).unwrap().start().unwrap();
    // The power is cut while the state is made and while the node becomes a member. Of this disk QEMU itself keeps tables
    // until the guest flushes: what was not flushed is lost.
    for step in ["format-disk: begin", "hand-over: begin", PAUSED] {
        second.expect(step, STEP).unwrap();
        second.restart().unwrap();
    }
    second.expect(PAUSED, STEP).unwrap();
    second.type_in("\n").unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(state_size(&second), size);
    let written = data(&second, "cluster-step");
    second.restart().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    assert_eq!(state_size(&second), size);
    assert_eq!(data(&second, "start-member"), written);
}

#[test]
fn a_manifest_for_secure_boot_admits_a_node_with_it_and_refuses_the_same_disk_without_it() {
    // The root has come as an archive, and has places in memory: what is signed and measured is whole whatever it is.
    let (root, words) = (Form::Archive, "latchkey.writable=tmpfs:/var");
    let plan = Plan { secure_boot: true, root, words, then: SHOW_ROOT, ..Plan::default() };
    let fleet = Fleet::planned("secure-boot", plan).unwrap();
    let image = fleet.image();
    let first = fleet.machine("node-1").unwrap().firmware(image.secure_firmware(fleet.run(), "node-1").unwrap());
    let (services, first) = fleet.found_cluster(first).unwrap();
    let line = first.expect("OS root is ", STEP).unwrap().text;
    assert!(line.ends_with("OS root is squashfs, writes to /run /var and not to / /etc"), "{line}");
    drop(first);
    // Somebody has switched it off in the firmware: here, the firmware is one without enrolled keys.
    let off = fleet.machine("off").unwrap().start().unwrap();
    off.expect("no ticket yet: measurements-refused", STEP).unwrap();
    // Without it the kernel is measured on its own, too.
    let line = services.join.console().expect("PCRs that differ: [4, 7] (", STEP).unwrap().text;
    assert!(line.contains("secure-boot-differs: PCR 7"), "{line}");
}
