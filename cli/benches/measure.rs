//! What `latchkey measure image` costs as a user runs it, from its start to its end: `cargo bench -p latchkey-cli --bench
//! measure`. PCRs and SNP launch digest together; files are in the page cache.

#[path = "../../measurements/tests/measurements/firmware.rs"]
mod firmware;
#[path = "../../measurements/benches/sample/mod.rs"]
mod sample;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use latchkey_bench::Bench;
use sample::{FIRMWARE, STUB};

/// As many pages as Debian's firmware has of different content: the least that its digest costs.
const PAGES: usize = 460;

fn main() {
    let bench = Bench::from_args();
    match fs::read(STUB) {
        Ok(stub) if Path::new(FIRMWARE).exists() => run(&bench, &stub),
        _ => eprintln!("left out: no {FIRMWARE} or no {STUB} (apt-get install ovmf systemd-boot-efi)"),
    }
}

fn run(bench: &Bench, stub: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let direct = firmware::Sample { pages: PAGES, ..firmware::Sample::amd_sev() };
    fs::write(directory.path().join("image.efi"), sample::uki(stub)).expect("room for an image");
    fs::write(directory.path().join("direct.fd"), direct.build()).expect("room for a firmware");
    let measure = |firmware: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        command.current_dir(directory.path()).args(["measure", "image", "image.efi", "--vcpus", "4"]);
        let command = command.args(["--snp-firmware", firmware]).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().expect("the program that was just built").success());
    };
    let what = "latchkey measure image: PCRs and SNP launch digest (process)";
    bench.measure_process("cli/measure-image", what, || measure(FIRMWARE));
    let what = "the same with the hashes of a direct boot (process)";
    bench.measure_process("cli/measure-image-direct", what, || measure("direct.fd"));
}
