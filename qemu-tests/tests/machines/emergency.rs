//! Ways around the agent that a person at the console, or at the boot loader, would try first.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use latchkey_qemu_tests::bootimage;
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, WAITS};
use latchkey_qemu_tests::hardware::{Boot, Disk};
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::swtpm::Authority;
use latchkey_qemu_tests::tamper::{LOADER, Parts, TamperedDisk};
use latchkey_qemu_tests::vm::Vm;

/// A boot takes 6 s without KVM on a quiet machine; this is for a slow and loaded one.
const BOOT: Duration = Duration::from_mins(10);
/// What opens a shell: words for the kernel and for sysvinit, and words for initramfs-tools, dracut and systemd. Apart, so
/// that one kind does not hide what another would do; word by word the agent's reader of the command line is tested.
const FIRST_PROGRAM_WORDS: &str = "init=/bin/sh single S 1";
const INITRAMFS_WORDS: &str = "break rd.break=pre-mount rd.shell rd.emergency=halt rd.systemd.debug_shell systemd.debug_shell \
     systemd.unit=rescue.target emergency";
/// Asks a shell, whoever's it is, to say that it is there.
const ARE_YOU_THERE: &str = "\n\nroot\n\necho SHELL $((6 * 7))\n";
const SHELL: &str = "SHELL 42";

/// What the tests below send does reach a system that listens: else they would prove nothing.
#[test]
fn a_system_with_a_shell_and_sysrq_hears_what_is_typed_and_pressed() {
    let run = Run::new("listening").unwrap();
    let addition = "echo 1 > /proc/sys/kernel/sysrq; echo PROBE listens; sh < /dev/console > /dev/console 2>&1";
    let image = probe::image(addition).unwrap().build(&run, "probe.efi").unwrap();
    let tpm = Authority::new(&run).unwrap().tpm("node").unwrap();
    let mut vm = Machine::new(&run, "node", &image).tpm(&tpm).start().unwrap();
    vm.expect("PROBE listens", BOOT).unwrap();
    vm.type_in(ARE_YOU_THERE).unwrap();
    vm.expect(SHELL, BOOT).unwrap();
    let mut monitor = vm.monitor().unwrap();
    monitor.serial_break().unwrap();
    vm.type_in("h").unwrap();
    vm.expect("sysrq: HELP", BOOT).unwrap();
    monitor.press(&["alt", "sysrq", "b"]).unwrap();
    vm.wait_exit(BOOT).unwrap();
}

/// Types and presses all that the system above reacts to.
fn harass(vm: &mut Vm) {
    vm.type_in(ARE_YOU_THERE).unwrap();
    let mut monitor = vm.monitor().unwrap();
    // Help; no memory left for some process; a register dump; a reboot.
    for letter in ["h", "f", "p", "b"] {
        monitor.serial_break().unwrap();
        vm.type_in(letter).unwrap();
        monitor.press(&["alt", "sysrq", letter]).unwrap();
    }
    monitor.press(&["ctrl", "alt", "delete"]).unwrap();
}

#[test]
fn nothing_typed_or_pressed_has_an_effect_before_and_after_the_lock() {
    // The OS answers on the port where the agent was, so that there is something to wait for after the last key.
    let then = "nc -l -p 9000 < /dev/null &
until netstat -ltn | grep -q :9000; do :; done; echo OS listens; wait; echo OS still up";
    let fleet = Fleet::with("harassed", "", then).unwrap();
    let mut node = fleet.machine("node-1").unwrap().start().unwrap();
    node.expect(WAITS, STEP).unwrap();
    harass(&mut node);
    fleet.init(&node).unwrap().success("init").unwrap();
    node.expect(MEMBER, STEP).unwrap();
    node.expect("OS listens", STEP).unwrap();
    harass(&mut node);
    std::net::TcpStream::connect(node.address(9000).unwrap()).unwrap();
    node.expect("OS still up", STEP).unwrap();
    for reaction in [SHELL, "sysrq:", "login", "Kernel panic"] {
        assert!(!node.console().contains(reaction), "{reaction}: {}", node.console().text());
    }
}

/// A machine whose firmware gets the image with a command line from outside; the OS lies on its disk.
fn with_options(fleet: &Fleet, name: &str, options: &str) -> Machine {
    let image = fleet.image();
    let boot = Boot::ImageWithOptions(image.uki.clone(), options.to_owned());
    let machine = fleet.machine_of(name, boot, &fleet.tpm(name).unwrap()).unwrap();
    machine.disk(Disk::new(&image.disk, "os").read_only())
}

#[test]
fn words_for_a_shell_from_the_boot_loader_or_in_the_image_open_none_and_the_node_is_refused() {
    let kind = bootimage::machine_type().unwrap();
    let machines = vec![kind.clone(), format!("{kind}-kernel")];
    let fleet = Fleet::planned("words", Plan { machines, ..Plan::default() }).unwrap();
    let (services, _first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    let image = std::fs::read(&fleet.image().uki).unwrap();
    let mut parts = Parts::of(&image, std::fs::read(bootimage::stub().unwrap()).unwrap()).unwrap();

    // Without Secure Boot the boot stub takes them; what it takes, it measures.
    let options = format!("{} {FIRST_PROGRAM_WORDS}", parts.command_line);
    let from_loader = with_options(&fleet, "loader", &options).start().unwrap();
    let refusal = shut(from_loader, &services, "[9, 12]");
    assert!(refusal.contains("overrides-differ: PCR 12"), "{refusal}");

    parts.command_line = format!("{} {INITRAMFS_WORDS}", parts.command_line);
    let disk = TamperedDisk::copy(fleet.run(), "baked.raw", &fleet.image().disk).unwrap();
    disk.write(LOADER, &parts.build().unwrap()).unwrap();
    let boot = Boot::Disk(Disk::new(disk.path(), "os").read_only());
    let baked = fleet.machine_of("baked", boot, &fleet.tpm("baked").unwrap()).unwrap().start().unwrap();
    let refusal = shut(baked, &services, "[4, 9, 11]");
    assert!(refusal.contains("image-differs: PCR 11"), "{refusal}");
}

/// The agent runs all the same and is refused because of these registers; nobody answers who is asked for a shell.
fn shut(mut node: Vm, services: &Services, registers: &str) -> String {
    node.expect("mounts: begin", STEP).unwrap();
    node.type_in(ARE_YOU_THERE).unwrap();
    node.expect("no ticket yet: measurements-refused", STEP).unwrap();
    node.type_in(ARE_YOU_THERE).unwrap();
    let differ = format!("PCRs that differ: {registers}");
    services.join.console().expect(&differ, STEP).unwrap();
    // It asks again: there was time for an answer.
    let refusal = services.join.console().expect(&differ, STEP).unwrap().text;
    assert!(!node.console().contains(SHELL), "{}", node.console().text());
    refusal
}

#[test]
fn another_first_program_is_started_where_there_is_one_and_in_the_image_that_ships_there_is_none() {
    let run = Run::new("rdinit").unwrap();
    let authority = Authority::new(&run).unwrap();
    let control = "#!/bin/busybox sh\necho CONTROL runs\n/bin/busybox poweroff -f\n";
    let image = probe::image("").unwrap().file("bin/sh", 0o755, control.into()).build(&run, "probe.efi").unwrap();
    let options = "console=ttyS0 no_timer_check panic=-1 rdinit=/bin/sh init=/bin/sh";
    let boot = |image: &std::path::Path| Boot::ImageWithOptions(image.into(), options.into());
    let tpm = authority.tpm("control").unwrap();
    let vm = Machine::booting(&run, "control", boot(&image)).tpm(&tpm).start().unwrap();
    vm.expect("CONTROL runs", BOOT).unwrap();
    drop(vm);

    let image = bootimage::BootImage::agent().unwrap().build(&run, "agent.efi").unwrap();
    let tpm = authority.tpm("node").unwrap();
    let mut vm = Machine::booting(&run, "node", boot(&image)).tpm(&tpm).start().unwrap();
    vm.expect("Kernel panic - not syncing: VFS: Unable to mount root fs", BOOT).unwrap();
    vm.wait_exit(BOOT).unwrap();
    assert!(!vm.console().contains("latchkey["), "{}", vm.console().text());
}

#[test]
fn a_kernel_that_keeps_its_emergency_keys_open_is_refused_before_anything_is_read() {
    let run = Run::new("sysrq").unwrap();
    let image = bootimage::BootImage::agent().unwrap().build(&run, "agent.efi").unwrap();
    let options = "console=ttyS0 no_timer_check panic=-1 sysrq_always_enabled";
    let tpm = Authority::new(&run).unwrap().tpm("node").unwrap();
    let boot = Boot::ImageWithOptions(image, options.into());
    let mut vm = Machine::booting(&run, "node", boot).tpm(&tpm).start().unwrap();
    let line = vm.expect("failed: ", BOOT).unwrap().text;
    assert!(line.contains("failed: sysrq-open: "), "{line}");
    vm.wait_exit(BOOT).unwrap();
    assert!(!vm.console().contains("] config: "), "{}", vm.console().text());
}
