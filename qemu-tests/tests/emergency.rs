//! Ways around the agent that a person at the console, or at the boot loader, would try first.

use std::time::Duration;

use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::probe;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::swtpm::Authority;

/// A boot takes 6 s without KVM on a quiet machine; this is for a loaded one.
const BOOT: Duration = Duration::from_mins(5);

/// What the tests below send does reach a system that listens: else they would prove nothing.
#[test]
fn a_system_with_a_shell_and_sysrq_hears_what_is_typed_and_pressed() {
    let run = Run::new("listening").unwrap();
    let addition = "echo 1 > /proc/sys/kernel/sysrq; echo PROBE listens; sh < /dev/console > /dev/console 2>&1";
    let image = probe::image(addition).unwrap().build(&run, "probe.efi").unwrap();
    let tpm = Authority::new(&run).unwrap().tpm("node").unwrap();
    let mut vm = Machine::new(&run, "node", &image).tpm(&tpm).start().unwrap();
    vm.expect("PROBE listens", BOOT).unwrap();
    vm.type_in("echo SHELL $((6 * 7))\n").unwrap();
    vm.expect("SHELL 42", BOOT).unwrap();
    let mut monitor = vm.monitor().unwrap();
    monitor.serial_break().unwrap();
    vm.type_in("h").unwrap();
    vm.expect("sysrq: HELP", BOOT).unwrap();
    monitor.press(&["alt", "sysrq", "b"]).unwrap();
    vm.wait_exit(BOOT).unwrap();
}
