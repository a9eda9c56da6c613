//! What is predicted from an image alone is what the TPM reports, to the bit, on every kind of machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use latchkey_image::Built;
use latchkey_measurements::predict::{MachineType, OffVariable, Prediction, Uki};
use latchkey_qemu_tests::bootimage;
use latchkey_qemu_tests::hardware::Bus::{Nvme, Scsi, Virtio};
use latchkey_qemu_tests::hardware::TpmPort::{Crb, Tis};
use latchkey_qemu_tests::hardware::{self, Boot, Bus, Disk, Firmware, TpmPort};
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::secureboot::TestKeys;
use latchkey_qemu_tests::swtpm::Authority;
use latchkey_qemu_tests::tamper::{LOADER, TamperedDisk};
use latchkey_test_support::first;

/// A boot takes 6 s without KVM on a quiet machine; this is for a loaded one.
const BOOT: Duration = Duration::from_mins(5);

/// On the machine that the firmware of the boot stub's suite makes, Secure Boot off.
fn ordinary() -> MachineType {
    MachineType::builtin(&bootimage::machine_type().unwrap()).unwrap()
}

fn predict(image: &Path, machine: &MachineType, variables: Option<&Path>) -> Prediction {
    let bytes = std::fs::read(image).unwrap();
    let variables = variables.map(|path| std::fs::read(path).unwrap());
    Uki::measure(&bytes).unwrap().predict(&machine.with_variables(variables.as_deref()).unwrap()).unwrap()
}

/// A disk with the stand-in for the agent, and a root with nothing in it.
fn disk(run: &Run) -> Built {
    let root = run.subdirectory("root").unwrap();
    probe::image("").unwrap().disk(run.path(), "probe", "1.0.0", &root).unwrap()
}

/// Boots, and compares every predicted register with the TPM's.
fn reported_as_predicted(machine: Machine, name: &str, authority: &Authority, prediction: &Prediction) {
    let mut vm = machine.tpm(&authority.tpm(name).unwrap()).start().unwrap();
    vm.expect(probe::DONE, BOOT).unwrap();
    vm.wait_exit(BOOT).unwrap();
    let reported = probe::pcrs(&vm).unwrap();
    for (index, predicted) in prediction.pcrs() {
        assert_eq!(reported[&index], predicted.to_string(), "{name}, PCR {index}: {:#?}", prediction.events);
    }
}

/// A kind of machine.
struct Kind {
    name: &'static str,
    port: TpmPort,
    megabytes: u32,
    bus: Bus,
}

const fn kind(name: &'static str, port: TpmPort, megabytes: u32, bus: Bus) -> Kind {
    Kind { name, port, megabytes, bus }
}

impl Kind {
    fn machine(&self, run: &Run, firmware: Firmware, disk: &Path) -> Machine {
        let disk = Disk::new(disk, "os").read_only().on(self.bus);
        let machine = Machine::booting(run, self.name, Boot::Disk(disk)).firmware(firmware);
        machine.memory(self.megabytes).tpm_port(self.port)
    }
}

#[test]
fn predicted_registers_are_reported_whatever_the_tpm_interface_memory_and_disk() {
    let run = Run::new("predicted").unwrap();
    let authority = Authority::new(&run).unwrap();
    let image = disk(&run);
    let from_disk = predict(&image.uki, &ordinary(), None);
    let kinds = [
        kind("crb-256-virtio", Crb, 256, Virtio),
        kind("tis-512-nvme", Tis, 512, Nvme),
        kind("crb-1024-scsi", Crb, 1024, Scsi),
    ];
    for kind in first(2, &kinds) {
        let machine = kind.machine(&run, Firmware::OneFile, &image.disk);
        reported_as_predicted(machine, kind.name, &authority, &from_disk);
    }
    let kind = kind("tis-256-flash", Tis, 256, Virtio);
    let machine = kind.machine(&run, Firmware::flash(&run, kind.name).unwrap(), &image.disk);
    reported_as_predicted(machine, kind.name, &authority, &from_disk);
}

#[test]
fn predicted_registers_are_reported_under_secure_boot_and_an_unsigned_image_does_not_start() {
    let run = Run::new("predicted-secure").unwrap();
    let (authority, keys) = (Authority::new(&run).unwrap(), TestKeys::take(&run).unwrap());
    let image = disk(&run);
    let signed = keys.sign(&run, &image.uki, "signed.efi").unwrap();
    let disk = TamperedDisk::copy(&run, "signed.raw", &image.disk).unwrap();
    disk.write(LOADER, &std::fs::read(&signed).unwrap()).unwrap();
    // The package's test keys differ from suite to suite.
    let snakeoil = MachineType::builtin("debian-ovmf-snakeoil").unwrap();
    let prediction = predict(&signed, &snakeoil, Some(&keys.variables));
    for kind in first(1, &[kind("secure-crb-512-scsi", Crb, 512, Scsi), kind("secure-tis-256-nvme", Tis, 256, Nvme)]) {
        let machine = kind.machine(&run, keys.firmware(&run, kind.name).unwrap(), disk.path());
        reported_as_predicted(machine, kind.name, &authority, &prediction);
    }
    // The same firmware without enrolled keys: Secure Boot is off, and that is what is reported.
    let kind = kind("not-enrolled", Crb, 1024, Virtio);
    let variables = hardware::variables().unwrap();
    let firmware = Firmware::secure_flash(&run, kind.name, &variables).unwrap();
    let off = MachineType { secure_boot_variable: Some(OffVariable::Zero), ..ordinary() };
    let off = predict(&signed, &off, Some(&variables));
    assert_ne!(off.pcr(7), prediction.pcr(7));
    reported_as_predicted(kind.machine(&run, firmware, disk.path()), kind.name, &authority, &off);

    let kind = Kind { name: "unsigned", ..kind };
    let firmware = keys.firmware(&run, kind.name).unwrap();
    let tpm = authority.tpm(kind.name).unwrap();
    let vm = kind.machine(&run, firmware, &image.disk).tpm(&tpm).start().unwrap();
    vm.expect("Access Denied", BOOT).unwrap();
    assert!(!vm.console().contains("PROBE"), "{}", vm.console().text());
}
