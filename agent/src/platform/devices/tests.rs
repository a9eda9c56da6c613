//! The rule of the state disk on a made-up `/sys` and `/dev`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use latchkey_boot_formats::gpt_sample::{disk, entry};
use latchkey_boot_formats::partition_type::STATE;

use latchkey_test_support::volume::Maker;

use super::select::{Choice, choose, settle};
use super::*;

const SECTORS: usize = 2048;

/// A root with the files of sysfs and devtmpfs that are looked at.
struct Machine(PathBuf);

impl Machine {
    fn new() -> Self {
        let id = u64::from_ne_bytes(crate::platform::entropy::bytes());
        let root = std::env::temp_dir().join(format!("latchkey-devices-{id:016x}"));
        fs::create_dir_all(root.join("sys/class/block")).unwrap();
        fs::create_dir_all(root.join("dev")).unwrap();
        Self(root)
    }

    fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn device(&self, name: &str, place: &str, sectors: u64) {
        self.write(format!("sys/devices/{place}/size"), format!("{sectors}\n"));
        self.write(format!("sys/devices/{place}/ro"), "0\n");
        symlink(format!("../../devices/{place}"), self.0.join("sys/class/block").join(name)).unwrap();
    }

    fn disk(self, name: &str, content: &[u8]) -> Self {
        self.device(name, &format!("pci/block/{name}"), (content.len() / 512) as u64);
        self.write(format!("sys/devices/pci/block/{name}/queue/logical_block_size"), "512\n");
        self.write(format!("sys/devices/pci/block/{name}/serial"), format!("serial-{name}\n"));
        self.write(format!("dev/{name}"), content);
        self
    }

    fn partition(self, disk: &str, number: u32, label: &str, start: u64) -> Self {
        let name = format!("{disk}{number}");
        self.device(&name, &format!("pci/block/{disk}/{name}"), 8);
        let at = |file: &str| format!("sys/devices/pci/block/{disk}/{name}/{file}");
        self.write(at("partition"), format!("{number}\n"));
        self.write(at("start"), format!("{start}\n"));
        self.write(at("uevent"), format!("MAJOR=8\nDEVTYPE=partition\nPARTN={number}\nPARTNAME={label}\n"));
        self
    }

    fn set(self, name: &str, file: &str, text: &str) -> Self {
        self.write(format!("sys/devices/pci/block/{name}/{file}"), text);
        self
    }

    /// What is found when nothing more comes.
    fn find(&self, wanted: &Wanted<'_>) -> Result<String, &'static str> {
        let inventory = Inventory::scan(&self.0).unwrap();
        let choice = choose(&inventory, wanted);
        settle(choice, wanted, &inventory).map(|device| device.name).map_err(|error| error.code().as_str())
    }

    fn auto(&self) -> Result<String, &'static str> {
        self.find(&Wanted::AutoState(&[]))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn blank() -> Vec<u8> {
    vec![0; SECTORS * 512]
}

fn with_state() -> Vec<u8> {
    disk(512, SECTORS, &[entry(Guid::from_text_order([1; 16]), 40, 47, "esp"), entry(STATE, 48, 99, "state")])
}

#[test]
fn the_only_disk_without_partitions_is_the_state_disk() {
    let machine = Machine::new()
        .disk("vda", &blank())
        .disk("vdb", &disk(512, SECTORS, &[entry(Guid::from_text_order([1; 16]), 40, 47, "esp")]))
        .partition("vdb", 1, "esp", 40);
    assert_eq!(machine.auto(), Ok("vda".into()));
    assert_eq!(Machine::new().auto(), Err("device-missing"));
}

#[test]
fn two_blank_disks_refuse_rather_than_format_the_wrong_one() {
    assert_eq!(Machine::new().disk("vda", &blank()).disk("vdb", &blank()).auto(), Err("state-disk-ambiguous"));
}

#[test]
fn a_state_partition_comes_before_blank_disks_and_two_refuse() {
    let one = |machine: Machine, disk| {
        machine.disk(disk, &with_state()).partition(disk, 1, "esp", 40).partition(disk, 2, "state", 48)
    };
    let machine = one(Machine::new().disk("sda", &blank()), "nvme0n1p");
    assert_eq!(machine.auto(), Ok("nvme0n1p2".into()));
    assert_eq!(one(machine, "vdz").auto(), Err("state-disk-ambiguous"));
}

#[test]
fn devices_that_hold_no_state_are_no_candidates() {
    let machine = Machine::new()
        .disk("vda", &blank())
        .set("vda", "ro", "1\n")
        .disk("sda", &blank())
        .set("sda", "removable", "1\n")
        .disk("sr0", &blank())
        .disk("vdb", b"");
    machine.device("loop0", "virtual/block/loop0", 2048);
    machine.device("dm-0", "virtual/block/dm-0", 2048);
    // One of the paths to an NVMe disk, which has no device file.
    machine.device("nvme0c0n1", "pci/nvme/nvme0/nvme0c0n1", 2048);
    machine.write("sys/devices/pci/nvme/nvme0/nvme0c0n1/hidden", "1\n");
    assert_eq!(machine.auto(), Err("device-missing"));
}

#[test]
fn a_disk_with_several_paths_is_one_disk() {
    let machine = Machine::new();
    machine.device("nvme0c0n1", "pci/nvme/nvme0/nvme0c0n1", 2048);
    machine.write("sys/devices/pci/nvme/nvme0/nvme0c0n1/hidden", "1\n");
    machine.device("nvme0n1", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1", 2048);
    machine.write("dev/nvme0n1", blank());
    assert_eq!(machine.auto(), Ok("nvme0n1".into()));
}

#[test]
fn a_stick_with_a_state_partition_is_no_candidate_unless_the_system_is_on_it() {
    let stick = Machine::new()
        .disk("sda", &with_state())
        .set("sda", "removable", "1\n")
        .partition("sda", 1, "esp", 40)
        .partition("sda", 2, "state", 48);
    assert_eq!(stick.auto(), Err("device-missing"));
    let devices = Inventory::scan(&stick.0).unwrap().devices;
    let root: Vec<_> = devices.into_iter().filter(|device| device.name == "sda1").collect();
    assert_eq!(stick.find(&Wanted::AutoState(&root)), Ok("sda2".into()));
}

#[test]
fn the_root_of_the_operating_system_is_no_candidate() {
    let machine = Machine::new().disk("vda", &blank()).disk("vdb", &blank());
    let inventory = Inventory::scan(&machine.0).unwrap();
    let root: Vec<_> = inventory.devices.into_iter().filter(|device| device.name == "vda").collect();
    assert_eq!(machine.find(&Wanted::AutoState(&root)), Ok("vdb".into()));
}

#[test]
fn the_disk_of_the_root_is_no_candidate_but_its_state_partition_is() {
    let machine = |content: &[u8]| {
        Machine::new()
            .disk("vda", content)
            .partition("vda", 1, "root", 40)
            .partition("vda", 2, "state", 48)
            .disk("vdb", &blank())
    };
    let taken = |machine: &Machine| -> Vec<_> {
        let devices = Inventory::scan(&machine.0).unwrap().devices;
        devices.into_iter().filter(|device| device.name == "vda1").collect()
    };
    let whole = machine(&with_state());
    assert_eq!(whole.find(&Wanted::AutoState(&taken(&whole))), Ok("vda2".into()));
    // An attacker calls the root itself a state partition.
    let kind = STATE;
    let disguised = machine(&disk(512, SECTORS, &[entry(kind, 40, 47, "root"), entry(kind, 48, 99, "state")]));
    assert_eq!(disguised.find(&Wanted::AutoState(&taken(&disguised))), Ok("vda2".into()));
    let only = machine(&disk(512, SECTORS, &[entry(kind, 40, 47, "root")]));
    assert_eq!(only.find(&Wanted::AutoState(&taken(&only))), Ok("vdb".into()));
}

#[test]
fn two_partitions_that_claim_to_be_the_root_refuse() {
    let machine = ["vda", "vdb"].into_iter().fold(Machine::new(), |machine, disk| {
        machine.disk(disk, &with_state()).partition(disk, 1, "esp", 40).partition(disk, 2, "state", 48)
    });
    let id = Guid::from_text_order([48; 16]);
    assert_eq!(machine.find(&Wanted::Partition(id, "the root")), Err("device-ambiguous"));
}

#[test]
fn a_damaged_disk_beside_the_root_does_not_hide_it_and_one_that_comes_first_does_not_end_the_wait() {
    let mut damaged = with_state();
    let last = damaged.len() - 512;
    (damaged[512 + 60], damaged[last + 60]) = (1, 1);
    let id = Guid::from_text_order([48; 16]);
    let machine = Machine::new().disk("vda", &damaged).partition("vda", 2, "state", 48);
    let inventory = Inventory::scan(&machine.0).unwrap();
    assert!(matches!(choose(&inventory, &Wanted::Partition(id, "the root")), Choice::Damaged(_)));
    let machine = machine.disk("vdb", &with_state()).partition("vdb", 2, "state", 48);
    assert_eq!(machine.find(&Wanted::Partition(id, "the root")), Ok("vdb2".into()));
}

#[test]
fn selectors_find_by_name_label_and_type() {
    let machine =
        Machine::new().disk("vda", &with_state()).partition("vda", 1, "esp", 40).partition("vda", 2, "state", 48);
    let find = |selector| machine.find(&Wanted::Selected(&selector));
    assert_eq!(find(DiskSelector::Device("vda".into())), Ok("vda".into()));
    assert_eq!(find(DiskSelector::PartLabel("state".into())), Ok("vda2".into()));
    assert_eq!(find(DiskSelector::PartType(STATE)), Ok("vda2".into()));
    let by_id = |id| machine.find(&Wanted::Partition(id, "the root"));
    assert_eq!(by_id(Guid::from_text_order([48; 16])), Ok("vda2".into()));
    assert_eq!(by_id(Guid::from_text_order([49; 16])), Err("device-missing"));
    assert_eq!(find(DiskSelector::PartLabel("stat".into())), Err("device-missing"));
    let machine = machine.disk("vdb", &blank()).partition("vdb", 1, "state", 48);
    assert_eq!(machine.find(&Wanted::Selected(&DiskSelector::PartLabel("state".into()))), Err("device-ambiguous"));
}

#[test]
fn a_partition_must_lie_where_the_table_says() {
    let machine = Machine::new().disk("vda", &with_state()).partition("vda", 2, "state", 56);
    assert_eq!(machine.find(&Wanted::Selected(&DiskSelector::PartType(STATE))), Err("device-missing"));
}

#[test]
fn a_table_damaged_in_both_copies_is_named() {
    let mut image = with_state();
    let last = image.len() - 512;
    (image[512 + 60], image[last + 60]) = (1, 1);
    let machine = Machine::new().disk("vda", &image).partition("vda", 2, "state", 48);
    assert_eq!(machine.auto(), Err("partition-table-damaged"));
}

#[test]
fn a_volume_is_found_by_its_label_on_a_disk_a_partition_and_in_a_drive_and_two_refuse() {
    let volume = |label| {
        let path = std::env::temp_dir()
            .join(format!("latchkey-{:016x}", u64::from_ne_bytes(crate::platform::entropy::bytes())));
        Maker::Genisoimage(&["-rock"]).make(&path, label, &[("user-data", "{}")]);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        bytes
    };
    let (seed, drive) = (volume("cidata"), volume("config-2"));
    let base = || Machine::new().disk("vda", &with_state()).partition("vda", 1, "esp", 40).disk("vdb", &blank());
    let machine = base().disk("vdc", &seed).disk("sr0", &drive).disk("sr1", b"");
    machine.write("sys/devices/pci/block/sr1/size", "4194300\n");
    fs::remove_file(machine.0.join("dev/sr1")).unwrap();
    assert_eq!(machine.find(&Wanted::Volume(Label::Cidata)), Ok("vdc".into()));
    assert_eq!(machine.find(&Wanted::Volume(Label::Config2)), Ok("sr0".into()), "beside a drive without a medium");
    // A medium in a drive is nothing else, whatever it is called.
    assert_eq!(machine.find(&Wanted::Selected(&DiskSelector::Device("sr0".into()))), Err("device-missing"));

    let twice = base().disk("vdc", &seed).disk("sr0", &seed);
    assert_eq!(twice.find(&Wanted::Volume(Label::Cidata)), Err("device-ambiguous"));
    let none = base().disk("sr0", &drive);
    let inventory = Inventory::scan(&none.0).unwrap();
    let wanted = Wanted::Volume(Label::Cidata);
    let error = settle(choose(&inventory, &wanted), &wanted, &inventory).unwrap_err().to_string();
    assert!(error.starts_with("no disk for the volume with the label cidata appeared"), "{error}");
    assert!(error.contains("/dev/vdb") && error.contains("/dev/sr0"), "{error}");

    let partition = base().disk("vdc", &blank()).partition("vdc", 1, "seed", 40);
    partition.write("dev/vdc1", &seed);
    assert_eq!(partition.find(&wanted), Ok("vdc1".into()));
    // What lies over a disk with partitions is not looked at as a whole.
    partition.write("dev/vdc", &seed);
    assert_eq!(partition.find(&wanted), Ok("vdc1".into()));
}

#[test]
fn a_description_for_logs_has_size_label_and_serial() {
    let machine =
        Machine::new().disk("vda", &with_state()).partition("vda", 2, "state", 48).set("vda/vda2", "ro", "1\n");
    let inventory = Inventory::scan(&machine.0).unwrap();
    let shown: Vec<_> = inventory.devices.iter().map(ToString::to_string).collect();
    let partition = "/dev/vda2 (0 MiB, label \"state\", serial \"serial-vda\", read-only)";
    assert_eq!(shown, ["/dev/vda (1 MiB, serial \"serial-vda\")", partition]);
    assert_eq!(inventory.devices[1].disk(), "vda");
}

#[test]
fn waiting_for_a_disk_ends_at_its_time() {
    let selector = DiskSelector::Device("there-is-none".into());
    let error =
        latchkey_test_support::block_on(find(&Wanted::Selected(&selector), Duration::from_millis(20))).unwrap_err();
    assert_eq!(error.code().as_str(), "device-missing");
    assert!(matches!(choose(&Inventory::default(), &Wanted::AutoState(&[])), Choice::Nothing));
}

/// The time in which no disk appeared counts from when the drivers were loaded, whatever was done meanwhile; and it is never
/// shorter than [`SETTLE`].
#[test]
fn a_state_disk_is_chosen_when_it_has_been_quiet_for_long_enough() {
    let machine = Machine::new().disk("vda", &vec![0; SECTORS * 512]);
    let inventory = Inventory::scan(&machine.0).unwrap();
    let (quiet, long) = (Instant::now(), Duration::from_secs(30));
    let waits = |wanted: &Wanted<'_>| waits_until(&choose(&inventory, wanted), wanted, quiet, quiet + long);
    assert_eq!(waits(&Wanted::AutoState(&[])), Some(quiet + SETTLE));
    let labelled = DiskSelector::PartLabel("state".into());
    assert_eq!(waits(&Wanted::Selected(&labelled)), Some(quiet + long), "nothing yet");
    let named = DiskSelector::Device("vda".into());
    assert_eq!(waits(&Wanted::Selected(&named)), None, "there is one of a name");
    assert_eq!(waits(&Wanted::Volume(Label::Cidata)), Some(quiet + long), "nothing yet");
    let wanted = Wanted::Volume(Label::Cidata);
    let found = Choice::Found(inventory.devices[0].clone());
    assert_eq!(waits_until(&found, &wanted, quiet, quiet + long), Some(quiet + SETTLE), "a second one may come");
}

#[test]
fn a_volume_is_looked_for_once_more_at_the_deadline_and_meanwhile_in_drives_where_nothing_is_announced() {
    let wanted = Wanted::Volume(Label::Cidata);
    let found = |drives: Inventory, timeout| {
        let device = Inventory::scan(&Machine::new().disk("sr0", &blank()).0).unwrap().optical.remove(0);
        let mut looks = 0;
        let look = async || {
            looks += 1;
            let choice = if looks == 1 { Choice::Nothing } else { Choice::Found(device.clone()) };
            Ok((drives.clone(), choice))
        };
        let find = async { Watch::begin().unwrap().find_by(&wanted, timeout, look).await };
        latchkey_test_support::block_on(find).unwrap().name
    };
    assert_eq!(found(Inventory::default(), Duration::from_millis(20)), "sr0", "at the deadline");
    let drive = Inventory::scan(&Machine::new().disk("sr0", &blank()).0).unwrap();
    let (begun, day) = (Instant::now(), Duration::from_hours(24));
    assert_eq!(found(drive, day), "sr0", "in a drive");
    assert!(begun.elapsed() >= SETTLE, "a second one may come");
}

#[test]
fn a_volume_s_time_begins_again_only_when_something_else_is_seen() {
    let wanted = Wanted::Volume(Label::Cidata);
    let mut seen = Seen::default();
    let machine = Machine::new().disk("sr0", &blank());
    let scan = |machine: &Machine| Inventory::scan(&machine.0).unwrap();
    let (quiet, long) = (Instant::now(), Duration::from_hours(1));
    let inventory = scan(&machine);
    assert!(!seen.becomes(&inventory, &choose(&inventory, &wanted)), "the first look");
    assert!(!seen.becomes(&inventory, &choose(&inventory, &wanted)), "the same");
    let again = look_again(&Choice::Nothing, &wanted, &inventory, quiet, quiet + long).unwrap();
    assert!(again < quiet + long / 2);
    let drive = inventory.optical[0].clone();
    assert!(seen.becomes(&inventory, &Choice::Found(drive.clone())), "a medium that was not ready");
    assert!(!seen.becomes(&inventory, &Choice::Found(drive.clone())));
    let machine = machine.disk("vdb", &blank());
    assert!(seen.becomes(&scan(&machine), &Choice::Found(drive.clone())), "another disk");
    let found = look_again(&Choice::Found(drive), &wanted, &inventory, quiet, quiet + long);
    assert_eq!(found, Some(quiet + SETTLE));
    let without = look_again(&Choice::Nothing, &wanted, &Inventory::default(), quiet, quiet + long);
    assert_eq!(without, Some(quiet + long), "disks are announced");
}
