//! What launch digests cost: `cargo bench -p latchkey-measurements --bench launch`.

use latchkey_bench::Bench;
use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, SnpGuest};

/// Where Debian's package `ovmf` has a firmware with SEV metadata.
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";
/// As large as a unified kernel image with Debian's cloud kernel.
const KERNEL: usize = 20 << 20;

fn main() {
    let bench = Bench::from_args();
    match std::fs::read(FIRMWARE) {
        Ok(file) => firmware(&bench, &file),
        Err(error) => eprintln!("left out: {FIRMWARE}: {error} (apt-get install ovmf)"),
    }
    let kernel: Vec<u8> = (0..KERNEL).map(|at| u8::try_from(at * 31 % 251).unwrap_or(0)).collect();
    let what = "kernel hashes of a direct boot, 20 MiB";
    bench.measure("measurements/kernel-hashes", what, || KernelHashes::of(&kernel, b"", "console=ttyS0"));
}

fn firmware(bench: &Bench, file: &[u8]) {
    let digest = |firmware: &Firmware| {
        let (cpu, features) = (CpuSignature::of_model("EPYC-Milan").expect("known"), GuestFeatures::default());
        let guest = SnpGuest { firmware, vcpus: VCPUS, cpu, features, direct_boot: None };
        guest.digest().expect("a guest that can be")
    };
    let what = "SNP launch digest from Debian's OVMF, 4 processors";
    bench.measure("measurements/launch-digest", what, || digest(&Firmware::parse(file).expect("SEV metadata")));
    let firmware = Firmware::parse(file).expect("SEV metadata");
    bench.measure("measurements/launch-again", "the same for another number of processors", || digest(&firmware));
}

const VCPUS: u32 = 4;
