//! What is predicted from the image alone is what a machine's event log says, event by event.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use latchkey_attestation::{PcrSet, PcrValues};
use latchkey_measurements::predict::{MachineType, Prediction, StubVersion, Uki};
use latchkey_measurements::{Bank, EventLog, replay};
use latchkey_qemu_tests::bootimage::{machine_type, stub_version};
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::swtpm::Authority;
use latchkey_qemu_tests::tamper::with_section;
use latchkey_qemu_tests::vm::Vm;

/// A boot takes 6 s without KVM on a quiet machine; this is for a loaded one.
const BOOT: Duration = Duration::from_mins(5);

/// Shows the firmware's event log in lines of 32 bytes.
const SHOW_LOG: &str = "mount -t securityfs securityfs /sys/kernel/security
od -An -v -tx1 -w32 /sys/kernel/security/tpm0/binary_bios_measurements | while read line; do echo PROBE log $line; done";

/// An archive of the initramfs (Linux, `buffer-format.rst`) that ends at once.
const NO_FILES: &str = concat!(
    "070701",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "0000000b",
    "00000000",
    "TRAILER!!!\0"
);

fn boot(run: &Run, authority: &Authority, name: &str, image: &Path, arguments: &[&str]) -> Vm {
    let machine = Machine::new(run, name, image).tpm(&authority.tpm(name).unwrap()).arguments(arguments);
    let mut vm = machine.start().unwrap();
    vm.expect(probe::DONE, BOOT).unwrap();
    vm.wait_exit(BOOT).unwrap();
    vm
}

fn log(vm: &Vm) -> Vec<u8> {
    let lines = vm.console().lines();
    let digits: String = lines.iter().filter_map(|line| line.text.strip_prefix("PROBE log ")).collect();
    hex::decode(digits.replace(' ', "")).unwrap()
}

fn predict(image: &Path) -> Prediction {
    let bytes = std::fs::read(image).unwrap();
    let machine = MachineType::builtin(&format!("{}-kernel", machine_type().unwrap())).unwrap();
    Uki::measure(&bytes).unwrap().predict(&machine.load(Path::new("/")).unwrap()).unwrap()
}

/// Sections besides those that every image has, as far as the boot stub knows them and its header has room.
fn with_more_sections(image: &Path) -> Vec<u8> {
    let sections: [(&str, &[u8]); 5] = [
        (".pcrsig", b"{}"),
        (".pcrpkey", b"KEY"),
        (".ucode", NO_FILES.as_bytes()),
        (".splash", b"no picture"),
        (".dtb", b"no device tree"),
    ];
    let known = match stub_version().unwrap() {
        StubVersion::V252 => &sections[..2],
        StubVersion::V257 => &sections,
    };
    let image = std::fs::read(image).unwrap();
    known.iter().try_fold(image, |image, (name, content)| with_section(&image, name, content)).unwrap()
}

#[test]
fn every_predicted_event_is_in_the_log_and_a_foreign_command_line_is_told_by_its_text() {
    let run = Run::new("prediction").unwrap();
    let authority = Authority::new(&run).unwrap();
    let image = probe::image(SHOW_LOG).unwrap().build(&run, "probe.efi").unwrap();
    let image = run.write("sections.efi", with_more_sections(&image)).unwrap();
    let prediction = predict(&image);

    let honest = boot(&run, &authority, "honest", &image, &[]);
    let pcrs = probe::pcrs(&honest).unwrap();
    for (index, predicted) in prediction.pcrs() {
        assert_eq!(pcrs[&index], predicted.to_string(), "PCR {index}: {:#?}", prediction.events);
    }
    let bytes = log(&honest);
    let events = EventLog::parse(&bytes).unwrap();
    let quoted: PcrValues = serde_json::from_value(serde_json::json!(pcrs)).unwrap();
    replay::check(&events, &quoted, replay::firmware_pcrs()).unwrap();
    assert_eq!(prediction.differences(&events, PcrSet::all()), []);
    for predicted in &prediction.events {
        let logged = events.events().iter().filter(|event| event.extends() == Some(predicted.pcr));
        let mut logged = logged.filter(|event| event.digest(Bank::Sha256) == Some(predicted.digest.as_bytes()));
        let event = logged.next().unwrap_or_else(|| panic!("not in the log: {predicted:?}"));
        assert_eq!(event.kind, predicted.kind, "{predicted:?}");
    }

    let foreign =
        boot(&run, &authority, "foreign", &image, &["-append", "console=ttyS0 no_timer_check panic=-1 evil=1"]);
    let bytes = log(&foreign);
    let told = prediction.differences(&EventLog::parse(&bytes).unwrap(), PcrSet::all());
    let told: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].starts_with("PCR 12 ") && told[0].ends_with("is not expected"), "{told:#?}");
    assert!(
        told[1].contains("expected kernel command line \"console=ttyS0 no_timer_check tsc=reliable highres=off quiet"),
        "{told:#?}"
    );
    assert!(told[1].ends_with("got kernel command line \"console=ttyS0 no_timer_check panic=-1 evil=1\""), "{told:#?}");
}
