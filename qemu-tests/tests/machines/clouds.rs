//! One image in every cloud: where its metadata are it knows from its SMBIOS, and what is said there makes it what it is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, VERSION, WAITS};
use latchkey_qemu_tests::hardware::Disk;
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::first;
use latchkey_test_support::metadata::FakeServer;
use latchkey_test_support::volume::Maker;
use serde_json::json;

/// Cloud, what its machines' SMBIOS says, and what the cloud calls the instance. First those that every run tries: a name made of an
/// answer, and the one cloud that must be told something. How each is asked is tested without a machine, too.
const CLOUDS: [(&str, &str, &str); 5] = [
    ("aws", "type=1,manufacturer=Amazon EC2", "ip-10-0-2-15.eu-central-1.compute.internal"),
    ("azure", "type=3,asset=7783-7084-3265-9085-8269-3286-77", "edge-7"),
    ("gcp", "type=1,product=Google Compute Engine", "edge-7"),
    ("openstack", "type=1,manufacturer=OpenStack Foundation", "edge-7.novalocal"),
    ("hetzner", "type=1,manufacturer=Hetzner", "edge-7"),
];

#[test]
fn one_image_is_founded_in_every_cloud_under_the_name_that_it_has_there() {
    let plan = Plan { metadata: Some("auto"), then: "echo OS up", ..Plan::default() };
    let fleet = Fleet::planned("clouds", plan).unwrap();
    let document = json!({"version": 1, "init_secret_hash": fleet.init_hash}).to_string();
    for &(cloud, smbios, name) in first(2, &CLOUDS) {
        let server = FakeServer::of(cloud, Some(&document));
        let node = fleet.machine(cloud).unwrap().in_cloud(smbios, server.address()).start().unwrap();
        is_founded(&fleet, &node, name);
        // The first stage does not end before that.
        assert_eq!(node.console().contains("Azure knows that this machine is up"), cloud == "azure");
    }
}

/// A volume in the run's directory.
fn volume(fleet: &Fleet, maker: Maker, label: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = fleet.run().file(&format!("{label}.img"));
    maker.make(&path, label, files);
    path
}

fn document(fleet: &Fleet) -> String {
    json!({"version": 1, "init_secret_hash": fleet.init_hash}).to_string()
}

/// Founds a cluster of its own on a machine, which is called as its metadata say.
fn is_founded(fleet: &Fleet, node: &Vm, name: &str) {
    node.expect(WAITS, STEP).unwrap();
    let founded = fleet.init_as(node, node.name()).unwrap().success("init").unwrap();
    assert_eq!(founded.json()["node"], name, "{}", node.name());
    node.expect(MEMBER, STEP).unwrap();
}

#[test]
fn the_image_of_all_clouds_is_founded_from_a_seed_volume_that_is_there_or_comes_late_and_from_no_other() {
    // Longer than it takes to attach the volume on a busy machine.
    let words = "latchkey.device_timeout=600";
    let plan = Plan { metadata: Some("auto"), words, then: "echo OS up", ..Plan::default() };
    let fleet = Fleet::planned("nocloud", plan).unwrap();
    let document = document(&fleet);
    let files = [("user-data", document.as_str()), ("meta-data", "instance-id: i-1\nlocal-hostname: edge-7\n")];
    let seed = volume(&fleet, Maker::Fat(12), "cidata", &files);
    // A cloud's name beside it: what is asked for comes first, and nobody answers there.
    let smbios = ["-smbios", "type=1,manufacturer=OpenStack Foundation,serial=ds=nocloud"];
    let machine = |name: &str| fleet.machine(name).unwrap().arguments(&smbios);
    let disk = |serial| Disk::new(&seed, serial).read_only();
    is_founded(&fleet, &machine("seeded").disk(disk("seed")).start().unwrap(), "edge-7");

    let late = machine("late").arguments(&["-device", "pcie-root-port,id=free,chassis=1"]).start().unwrap();
    late.expect("metadata-volume: begin", STEP).unwrap();
    late.monitor().unwrap().plug_in("free", &seed).unwrap();
    is_founded(&fleet, &late, "edge-7");

    let two = machine("two").disk(disk("seed")).disk(disk("other")).start().unwrap();
    two.expect("metadata-volume-ambiguous", STEP).unwrap();
    let impatient = fleet.build_image("impatient", VERSION, "latchkey.device_timeout=30").unwrap();
    let none = fleet.machine_of("none", impatient.boot(), &fleet.tpm("none").unwrap()).unwrap().arguments(&smbios);
    let none = none.start().unwrap();
    none.expect("metadata-volume-missing", STEP).unwrap();
}

#[test]
fn an_image_is_founded_from_a_config_drive_as_nova_makes_and_attaches_it() {
    // Drivers of a CD-ROM, as an image for OpenStack has them.
    let modules = &["sr_mod", "virtio_scsi"];
    let plan = Plan { metadata: Some("config-drive"), modules, then: "echo OS up", ..Plan::default() };
    let fleet = Fleet::planned("config-drive", plan).unwrap();
    let document = document(&fleet);
    let about = r#"{"uuid":"d8e0","hostname":"edge-7.novalocal"}"#;
    let files = [("openstack/latest/user_data", document.as_str()), ("openstack/latest/meta_data.json", about)];
    let options = &["-ldots", "-allow-lowercase", "-allow-multidot", "-l", "-J", "-r"];
    let drive = volume(&fleet, Maker::Genisoimage(options), "config-2", &files);
    let medium = format!("if=none,id=medium,format=raw,media=cdrom,readonly=on,file={}", drive.display());
    let drive = ["-drive", &medium, "-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=medium"];
    let machine = fleet.machine("drive").unwrap().arguments(&drive);
    let node = machine.start().unwrap();
    node.expect("metadata-volume: /dev/sr0", STEP).unwrap();
    is_founded(&fleet, &node, "edge-7.novalocal");
}
