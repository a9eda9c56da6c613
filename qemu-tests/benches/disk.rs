//! How long it takes until an authenticated disk can be used: ours, and stock cryptsetup's two ways, on one kernel.
//!
//! `./dev e2e bench-disk`. The guest's clock measures, so a busy host slows all alike; the ratios are what counts.

use std::time::Duration;

use latchkey_bench::{Bench, Clock, Figure};
use latchkey_qemu_tests::error::HarnessError;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::vm::Vm;

#[path = "../tests/machines/authenticated_disk/guest.rs"]
mod guest;

const BOOT: Duration = Duration::from_mins(10);
/// Large enough that the wipe is what it costs, small enough that one is bearable without KVM.
const MIB: u64 = 256;
/// The size that SPECIFICATION.md has a promise for.
const GIB: u64 = 1 << 30;

const CRYPTSETUP: &str = "
timed() {
    dd if=/dev/zero of=/dev/vda bs=1M count=20 conv=fsync 2>/dev/null
    read begin rest < /proc/uptime
    cryptsetup luksFormat -q --type luks2 --key-file /key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \\
        --cipher aes-xts-random --integrity hmac-sha256 --sector-size 4096 $2 /dev/vda > /dev/null &&
    cryptsetup open --key-file /key /dev/vda stock || return
    read end rest < /proc/uptime
    echo GUEST $1 $(echo $end $begin | awk '{print $1 - $2}')
    cryptsetup close stock
}
timed no-wipe --integrity-no-wipe
timed wipe
";

fn main() -> Result<(), HarnessError> {
    let bench = Bench::from_args();
    let run = Run::new("bench-disk")?;
    let (small, large) = (run.disk("small.img", MIB << 20)?, run.disk("large.img", GIB)?);
    let guest = guest::Guest::new(&run).disk(&small).disk(&large);
    let guest = guest.modules(&["algif_skcipher"]).programs(&["cryptsetup"]);
    let ours = |device| guest::disk(device, guest::AUTHENTICATED, "true");
    let mut vm = guest.boot("bench", &(ours("vdb") + &ours("vda") + CRYPTSETUP))?;
    for (id, what, line) in [
        ("disk/authenticated-1g", "authenticated disk of 1 GiB, blank to open, in a guest", "DISK open "),
        ("disk/authenticated", "the same, 256 MiB: file systems can be made", "DISK open "),
        ("cryptsetup/integrity-no-wipe", "cryptsetup --integrity-no-wipe, 256 MiB: they cannot", "GUEST no-wipe "),
        ("cryptsetup/integrity-wipe", "cryptsetup with its wipe, 256 MiB", "GUEST wipe "),
    ] {
        bench.report(&Figure::from_batches(id, what, Clock::Wall, 1, &[time(&vm, line)?]));
    }
    guest::end(&mut vm)
}

/// Of the next line that begins so and ends with seconds.
fn time(vm: &Vm, prefix: &str) -> Result<Duration, HarnessError> {
    let line = vm.expect(prefix, BOOT)?.text;
    let seconds = line.rsplit(' ').next().and_then(|number| number.parse().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| HarnessError::Unusable(format!("no time in {line}")))
}
