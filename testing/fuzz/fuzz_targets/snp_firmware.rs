//! A firmware file from whoever built it, launched as an SNP guest: with and without a direct boot, always to the same
//! digest, and never to that of a firmware with another byte.
#![no_main]

use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, SnpGuest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(firmware) = Firmware::parse(bytes) else { return };
    let hashes = KernelHashes::of(b"kernel", b"", "console=ttyS0").expect("no NUL");
    let digest = |firmware: &Firmware, direct_boot| {
        let (cpu, features) = (CpuSignature(0x00a0_0f11), GuestFeatures::default());
        SnpGuest { firmware, vcpus: 2, cpu, features, direct_boot }.digest()
    };
    let plain = digest(&firmware, None).expect("a guest that can be");
    if let Ok(direct) = digest(&firmware, Some(&hashes)) {
        assert!(firmware.takes_kernel_hashes());
        assert_ne!(direct, plain);
    }
    let mut other = bytes.to_vec();
    other[0] ^= 1;
    if let Ok(other) = Firmware::parse(&other) {
        assert_ne!(digest(&other, None).expect("the same guest"), plain);
    }
});
