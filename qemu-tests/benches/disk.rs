//! How long it takes until an authenticated disk can be used: ours, and stock cryptsetup's two ways, on one kernel.
//!
//! `just bench-disk`. The guest's clock measures, so a busy host slows all three alike; the ratios are what counts.

use std::time::Duration;

use latchkey_qemu_tests::error::HarnessError;
use latchkey_qemu_tests::run::Run;

#[path = "../tests/authenticated_disk/guest.rs"]
mod guest;

const BOOT: Duration = Duration::from_mins(10);
/// Large enough that the wipe is what it costs, small enough that one is bearable without KVM.
const MIB: u64 = 256;

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
    let run = Run::new("bench-disk")?;
    let image = run.disk("state.img", MIB << 20)?;
    let guest = guest::Guest::new(&run).disk(&image).modules(&["algif_skcipher"]).programs(&["cryptsetup"]);
    let mut vm = guest.boot("bench", &(guest::disk("vda", guest::AUTHENTICATED, "true") + CRYPTSETUP))?;
    let seconds = |prefix: &str| {
        let line = vm.expect(prefix, BOOT)?.text;
        let number = line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
        number.ok_or_else(|| HarnessError::Unusable(format!("no number in {line}")))
    };
    let ours = seconds("DISK open ")?;
    let (no_wipe, wipe) = (seconds("GUEST no-wipe ")?, seconds("GUEST wipe ")?);
    guest::end(&mut vm)?;
    println!("{MIB} MiB, formatted and open                                   seconds   ratio");
    for (what, time) in [
        ("Latchkey: file systems can be made", ours),
        ("cryptsetup --integrity-no-wipe: they cannot", no_wipe),
        ("cryptsetup, with its wipe", wipe),
    ] {
        println!("{what:58} {time:8.2} {:7.1}", time / ours);
    }
    Ok(())
}
