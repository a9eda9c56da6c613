//! What boot stubs take up besides the image: nothing of it reaches the kernel unmeasured.
//!
//! Stubs since systemd 254 know addons (other EFI programs whose sections are added to the image's) and words for the
//! command line that the host gives through SMBIOS. Debian 12's stub, 252, knows neither; Debian 13's, 257, both.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use latchkey_image::Built;
use latchkey_measurements::Bank;
use latchkey_measurements::predict::{MachineType, Prediction, StubVersion, Uki};
use latchkey_qemu_tests::bootimage;
use latchkey_qemu_tests::hardware::{Boot, Disk, Firmware};
use latchkey_qemu_tests::kernel::Kernel;
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::secureboot::TestKeys;
use latchkey_qemu_tests::swtpm::Authority;
use latchkey_qemu_tests::tamper::{LOADER, TamperedDisk, addon};
use latchkey_qemu_tests::vm::Vm;

/// A boot takes 6 s without KVM on a quiet machine; this is for a loaded one.
const BOOT: Duration = Duration::from_mins(5);
/// What the probe shows besides.
const SHOW: &str = "echo PROBE line $(cat /proc/cmdline)";
/// The initramfs of an addon: its process 1 would be started in place of the image's.
const SHOW_FOREIGN: &str = "echo PROBE foreign init; echo PROBE line $(cat /proc/cmdline)";
/// Beside the image, and for all images of the partition.
const PLACES: [&str; 2] = ["EFI/BOOT/BOOTX64.EFI.extra.d/evil.addon.efi", "loader/addons/evil.addon.efi"];
/// Words from the host.
const FROM_HOST: &str = "type=11,value=io.systemd.stub.kernel-cmdline-extra=evil.host=1";

/// The honest image, and an attacker's disk of it.
struct Attack {
    run: Run,
    authority: Authority,
    honest: Built,
    disk: TamperedDisk,
}

impl Attack {
    fn new(name: &str) -> Self {
        let run = Run::new(name).unwrap();
        let authority = Authority::new(&run).unwrap();
        let root = run.subdirectory("root").unwrap();
        let honest = probe::image(SHOW).unwrap().disk(run.path(), "probe", "1.0.0", &root).unwrap();
        let disk = TamperedDisk::copy(&run, "attacked.raw", &honest.disk).unwrap();
        Self { run, authority, honest, disk }
    }

    fn boot(&self, name: &str, firmware: Firmware, arguments: &[&str]) -> Vm {
        let boot = Boot::Disk(Disk::new(self.disk.path(), "os").read_only());
        let machine = Machine::booting(&self.run, name, boot).firmware(firmware).arguments(arguments);
        let mut vm = machine.tpm(&self.authority.tpm(name).unwrap()).start().unwrap();
        vm.expect(probe::DONE, BOOT).unwrap();
        vm.wait_exit(BOOT).unwrap();
        vm
    }
}

fn predict(image: &Path, machine: &str, variables: Option<&Path>) -> Prediction {
    let bytes = std::fs::read(image).unwrap();
    let variables = variables.map(|path| std::fs::read(path).unwrap());
    let machine = MachineType::builtin(machine).unwrap().with_variables(variables.as_deref()).unwrap();
    Uki::measure(&bytes).unwrap().predict(&machine).unwrap()
}

/// The predicted registers that the machine reports otherwise.
fn differing(vm: &Vm, prediction: &Prediction) -> Vec<u8> {
    let reported = probe::pcrs(vm).unwrap();
    let differs = |(index, predicted): &(u8, _)| reported[index] != format!("{predicted}");
    prediction.pcrs().into_iter().filter(differs).map(|(index, _)| index).collect()
}

/// What the TPM says of a register that these were measured into.
fn register(measured: &[&[u8]]) -> String {
    let extend = |value: Vec<u8>, data: &&[u8]| Bank::Sha256.digest(&[&value, &Bank::Sha256.digest(&[data])]);
    hex::encode(measured.iter().fold(vec![0; 32], extend))
}

/// Words as the boot stub measures them.
fn words(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn addons_and_words_of_the_host_reach_no_kernel_unmeasured() {
    let attack = Attack::new("addons");
    let foreign = probe::image(SHOW_FOREIGN).unwrap().initramfs(&Kernel::provision().unwrap()).unwrap();
    let [beside, common] = PLACES;
    attack.disk.write(beside, &addon(&[(".cmdline", b"evil.beside=1"), (".initrd", &foreign)]).unwrap()).unwrap();
    attack.disk.write(common, &addon(&[(".cmdline", b"evil.common=1")]).unwrap()).unwrap();
    let prediction = predict(&attack.honest.uki, &bootimage::machine_type().unwrap(), None);

    let vm = attack.boot("addons", Firmware::OneFile, &["-smbios", FROM_HOST]);
    let line = vm.console().value("PROBE line ").unwrap();
    let replaced = vm.console().contains("PROBE foreign init");
    match bootimage::stub_version().unwrap() {
        StubVersion::V252 => {
            assert!(!line.contains("evil") && !replaced, "{}", vm.console().text());
            assert_eq!(differing(&vm, &prediction), [0; 0]);
        }
        // They have all the effect they can have, as nothing is signed; and each is measured.
        StubVersion::V257 => {
            assert!(line.ends_with(" evil.common=1 evil.beside=1 evil.host=1"), "{line}");
            assert!(replaced, "{}", vm.console().text());
            assert_eq!(differing(&vm, &prediction), [4, 9, 12]);
            let measured = [words("evil.common=1 evil.beside=1"), words("evil.host=1"), foreign];
            let measured: Vec<&[u8]> = measured.iter().map(Vec::as_slice).collect();
            assert_eq!(probe::pcrs(&vm).unwrap()[&12], register(&measured));
        }
    }
}

#[test]
#[ignore = "boot stubs since systemd 254: ./dev e2e suite trixie"]
fn under_secure_boot_an_unsigned_addon_is_not_taken_up_and_what_is_taken_up_is_measured() {
    let attack = Attack::new("addons-secure");
    let (keys, [beside, _]) = (TestKeys::take(&attack.run).unwrap(), PLACES);
    let image = keys.sign(&attack.run, &attack.honest.uki, "signed.efi").unwrap();
    attack.disk.write(LOADER, &std::fs::read(&image).unwrap()).unwrap();
    let prediction = predict(&image, "debian-ovmf-snakeoil", Some(&keys.variables));
    let evil = addon(&[(".cmdline", b"evil.beside=1")]).unwrap();
    let boot = |name: &str, arguments: &[&str]| {
        let vm = attack.boot(name, keys.firmware(&attack.run, name).unwrap(), arguments);
        (vm.console().value("PROBE line ").unwrap(), differing(&vm, &prediction))
    };

    attack.disk.write(beside, &evil).unwrap();
    let (line, differing) = boot("unsigned", &[]);
    assert!(!line.contains("evil"), "{line}");
    assert_eq!(differing, [0; 0]);

    // The host needs no signature.
    let (line, differing) = boot("unsigned-host", &["-smbios", FROM_HOST]);
    assert!(line.ends_with(" evil.host=1") && !line.contains("evil.beside"), "{line}");
    assert_eq!(differing, [9, 12]);

    let evil = attack.run.write("evil.efi", &evil).unwrap();
    let evil = keys.sign(&attack.run, &evil, "evil-signed.efi").unwrap();
    attack.disk.write(beside, &std::fs::read(evil).unwrap()).unwrap();
    let (line, differing) = boot("signed", &[]);
    assert!(line.ends_with(" evil.beside=1"), "{line}");
    assert_eq!(differing, [4, 9, 12]);
}
