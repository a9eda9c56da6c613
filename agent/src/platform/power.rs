//! The end of a boot: reboot, power off, and what a panic does.
//!
//! Process 1 must never return: the kernel would panic with a message about us that names nothing. There is no shell
//! and no prompt either (anchor: emergency shells give away what a lock protects), so every end is one of these.

use std::panic::PanicHookInfo;
use std::sync::mpsc;
use std::time::Duration;

use latchkey_reason::reason_codes;
use rustix::system::RebootCommand;

use super::console;
use super::pid1::Pid1;

reason_codes! {
    /// What ends a boot by itself.
    pub enum PowerCode {
        /// The kernel does not restart the machine.
        RebootRefused = "reboot-refused": "switch the machine off";
        /// The agent broke.
        Panic = "agent-panic": "report this as a bug";
    }
}

/// How long a message of a failed boot stays readable before the machine goes on.
pub const READING_TIME: Duration = Duration::from_secs(5);

/// Restarts the machine, after what was written reached the disks, or ten seconds.
pub fn reboot(_: Pid1) -> ! {
    restart();
    loop {
        std::thread::park();
    }
}

/// As [`reboot`], from within the OS. Needs no service manager: nothing of this boot is worth an orderly stop. Returns only
/// if the kernel refuses.
pub fn restart() {
    write_back();
    let refusal = rustix::system::reboot(RebootCommand::Restart);
    console::failure("power", PowerCode::RebootRefused, &format!("the kernel does not reboot ({refusal:?})"));
}

/// Ctrl-Alt-Del on a console becomes a signal for process 1, which takes no notice, instead of a hard reset.
pub fn ignore_ctrl_alt_del(_: Pid1) {
    // A kernel that refuses keeps its default; that is no reason to stop a boot.
    let _ = rustix::system::reboot(RebootCommand::CadOff);
}

/// Makes every panic print `agent-panic` with its place and reboot the machine.
///
/// Formatted messages of panics are left out: they may contain whatever was being worked on.
pub fn reboot_on_panic(pid1: Pid1) {
    std::panic::set_hook(Box::new(move |info| {
        report_panic(info);
        linger(READING_TIME);
        reboot(pid1)
    }));
}

/// Prints where a panic was.
pub fn report_panic(info: &PanicHookInfo<'_>) {
    console::failure("panic", PowerCode::Panic, &describe(info));
}

/// Keeps the console as it is for a while.
#[expect(clippy::disallowed_methods, reason = "not synchronisation: time for a human to read the console")]
pub fn linger(time: Duration) {
    std::thread::sleep(time);
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let fixed = info.payload().downcast_ref::<&'static str>().copied().unwrap_or("no fixed message");
    format!("the agent broke at {place} ({fixed}); the machine reboots")
}

/// How long disks may take to write what they have.
const WRITE_BACK_TIME: Duration = Duration::from_secs(10);

/// Writes everything to the disks. One that hangs must not keep a machine that has failed from rebooting.
fn write_back() {
    let (done, waiting) = mpsc::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        rustix::fs::sync();
        let _ = done.send(());
    });
    match thread {
        Ok(_) => drop(waiting.recv_timeout(WRITE_BACK_TIME)),
        // No memory for a thread, then: without a time limit.
        Err(_) => rustix::fs::sync(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_report_names_the_place_but_not_the_data_at_hand() {
        let (sender, receiver) = mpsc::channel();
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = sender.send(describe(info));
        }));
        let secret = std::hint::black_box("hunter2");
        let _ = std::thread::spawn(move || panic!("the secret was {secret}")).join();
        let _ = std::thread::spawn(|| panic!("fixed words")).join();
        std::panic::set_hook(previous);
        let reports: Vec<String> = receiver.try_iter().collect();
        assert!(reports.iter().all(|report| !report.contains("hunter2")), "{reports:?}");
        assert!(reports.iter().any(|report| report.contains("power.rs") && report.contains("fixed words")));
    }
}
