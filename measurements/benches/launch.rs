//! What predictions cost: SNP launch digests, and with them the PCRs, all from one image:
//! `cargo bench -p latchkey-measurements --bench launch`.

mod sample;

use std::fs;

use latchkey_bench::Bench;
use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, SnpGuest};
use latchkey_measurements::predict::{Machine, MachineType, Uki, Whole};
use sample::{FIRMWARE, STUB};

const VCPUS: u32 = 4;

fn main() {
    let bench = Bench::from_args();
    match (fs::read(FIRMWARE), fs::read(STUB)) {
        (Ok(file), Ok(stub)) => {
            firmware(&bench, &file);
            image(&bench, &file, &stub);
        }
        _ => eprintln!("left out: no {FIRMWARE} or no {STUB} (apt-get install ovmf systemd-boot-efi)"),
    }
}

fn firmware(bench: &Bench, file: &[u8]) {
    let what = "SNP launch digest from Debian's OVMF, 4 processors";
    bench.measure("measurements/launch-digest", what, || digest(&Firmware::parse(file).expect("SEV metadata")));
    let firmware = Firmware::parse(file).expect("SEV metadata");
    bench.measure("measurements/launch-again", "the same for another number of processors", || digest(&firmware));
}

/// What `latchkey measure image` computes, by the clock: it hashes on several processors.
fn image(bench: &Bench, file: &[u8], stub: &[u8]) {
    let (uki, machine) = (sample::uki(stub), machine());
    let pcrs = || Uki::measure(&uki).expect("a known stub").predict(&machine).expect("a known machine").pcrs();
    bench.measure_process("measurements/pcrs", "PCRs of a 17 MB unified kernel image", pcrs);
    let launch = || digest(&Firmware::parse(file).expect("SEV metadata"));
    let both = || {
        let (uki, _, launch) = Uki::measure_beside(&uki, Whole::Left, Some(launch)).expect("a known stub");
        (uki.predict(&machine).expect("a known machine").pcrs(), launch)
    };
    bench.measure_process("measurements/image", "the same with an SNP launch digest", both);
    // The hashes of what firmware that checks it boots directly; Debian's does not.
    let direct = || {
        let (uki, file, launch) = Uki::measure_beside(&uki, Whole::Hashed, Some(launch)).expect("a known stub");
        let hashes = KernelHashes::of_digest(file.expect("asked for"), b"", "console=ttyS0").expect("no NUL");
        (uki.predict(&machine).expect("a known machine").pcrs(), hashes, launch)
    };
    bench.measure_process("measurements/image-direct", "and with the hashes of a direct boot", direct);
    bench.measure("measurements/image-work", "that, time of all processors together", direct);
}

fn digest(firmware: &Firmware) -> [u8; 48] {
    let (cpu, features) = (CpuSignature::of_model("EPYC-Milan").expect("known"), GuestFeatures::default());
    let guest = SnpGuest { firmware, vcpus: VCPUS, cpu, features, direct_boot: None };
    guest.digest().expect("a guest that can be")
}

fn machine() -> Machine {
    let machine = MachineType::builtin("debian-12-ovmf").expect("a known machine");
    machine.with_variables(None).expect("no variables are needed")
}
