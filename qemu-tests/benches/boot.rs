//! From power-on to the ticket that opens a node's disk, beside the same kernel and firmware with a process 1 that does
//! nothing: `cargo bench -p latchkey-qemu-tests --bench boot`.
//!
//! Both boot from a disk through the firmware, by turns, one machine at a time. Time is the clock's, from QEMU's start to
//! the line on the console; it is the machine's time only if nothing else runs here. With `--prepare` nothing is measured:
//! what this benchmark, `disk` and `image` need is compiled and fetched.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot prepare its rig shall fail there")]

use std::time::Duration;

use latchkey_bench::{Bench, Clock, Figure, Quantity};
use latchkey_qemu_tests::bootimage::BootImage;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::fleet::{self, Fleet, MEMBER, STEP};
use latchkey_qemu_tests::hardware::{Boot, Disk};
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::rootfs;

/// Boots of each kind. A boot takes 6 s, and the longest disturbance is one of them.
const BOOTS: usize = 5;
/// What the idle process 1 says.
const UP: &str = "NOTHING to do";
/// What a node says when its key arrives.
const TICKET: &str = "lifecycle: {\"saw\":{\"offered\"";
/// The steps of a node on the way, as firmware and agent say that they are done.
const STEPS: [(&str, &str); 8] = [
    ("boot-stub", "BdsDxe: starting"),
    ("process-1", "mounts: begin"),
    ("modules", "] modules: done"),
    ("network", "] network: done"),
    ("tpm", "] tpm: done"),
    ("root", "] root: done"),
    ("state-disk", "] devices: done"),
    ("disk", "look-at-disk: done"),
];

fn main() {
    if std::env::args().any(|argument| argument == "--prepare") {
        fleet::prepare().unwrap();
        build::guest("state_disk").unwrap();
        return;
    }
    let bench = Bench::from_args();
    let fleet = Fleet::new("bench").unwrap();
    let (_services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    drop(first);
    let idle = idle_disk(&fleet);

    let mut nothing = Vec::new();
    let mut ticket = Vec::new();
    let mut memory = Vec::new();
    let mut steps: Vec<Vec<Duration>> = vec![Vec::new(); STEPS.len()];
    for number in 0..BOOTS {
        let name = format!("idle-{number}");
        let tpm = fleet.tpm(&name).unwrap();
        let vm = Machine::booting(fleet.run(), &name, idle.clone()).tpm(&tpm).start().unwrap();
        nothing.push(vm.expect(UP, STEP).unwrap().at);
        drop(vm);

        let vm = fleet.machine(&format!("joiner-{number}")).unwrap().start().unwrap();
        vm.expect(MEMBER, STEP).unwrap();
        let lines = vm.console().lines();
        let at = |text: &str| lines.iter().find(|line| line.text.contains(text)).unwrap().at;
        ticket.push(at(TICKET));
        memory.extend(lines.iter().find_map(|line| peak_memory(&line.text)));
        for (times, (_, text)) in steps.iter_mut().zip(STEPS) {
            times.push(at(text));
        }
    }
    report(&bench, "boot/nothing", "power-on to a process 1 that does nothing", &nothing);
    for (times, (name, _)) in steps.iter().zip(STEPS) {
        report(&bench, &format!("boot/to-{name}"), &format!("power-on to {name} of a node"), times);
    }
    report(&bench, "boot/ticket", "power-on to the ticket of a node that joins", &ticket);
    let memory = memory.into_iter().max().unwrap();
    bench.count(&Quantity::new("agent/peak-memory", "peak memory of stage 1 on a node that joins, bytes", memory));
}

/// What the agent says it held at most, in bytes: `peak memory 3700 kB`, where kB are of 1024 (proc(5)).
fn peak_memory(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("peak memory ")?;
    Some(rest.split_once(" kB")?.0.trim().parse::<u64>().ok()? * 1024)
}

/// The same kernel, firmware and kind of disk; nothing else in the initramfs.
fn idle_disk(fleet: &Fleet) -> Boot {
    let script = format!("#!/bin/busybox sh\necho {UP}\nread forever\n");
    let image = BootImage::new(script.into_bytes()).file("bin/busybox", 0o755, rootfs::busybox().unwrap());
    let image = image.without_modules();
    let root = fleet.run().subdirectory("idle-root").unwrap();
    let built = image.disk(fleet.run().path(), "idle", "1.0.0", &root).unwrap();
    Boot::Disk(Disk::new(&built.disk, "os").read_only())
}

fn report(bench: &Bench, id: &str, what: &str, times: &[Duration]) {
    bench.report(&Figure::from_batches(id, what, Clock::Wall, 1, times));
}
