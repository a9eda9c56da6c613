//! Stage 1: from power-on to the hand-over, as process 1 of the initramfs.
//!
//! In the order of the code: [`prepare`] brings the machine up and looks at the disk; [`driver`] runs the life machine
//! against the flows until it leaves or ends; here the node switches to the OS, or says why not and reboots.

mod disk;
mod driver;
pub(crate) mod event_queue;
mod grow;
mod machine;
mod prepare;

use std::convert::Infallible;
use std::time::Duration;

use crate::lifecycle::{Stop, backoff::Backoff};
use crate::platform::pid1::Pid1;
use crate::platform::root::OpenRoot;
use crate::platform::switch_root::switch_root;
use crate::platform::timeline::Timeline;
use crate::platform::{clock, console, power};
use latchkey_node_config::Config;

use driver::Ended;

/// All steps of this boot.
static TIMELINE: Timeline = Timeline::new();

/// Why a boot ends without the OS.
#[derive(Debug)]
pub struct Failure {
    step: &'static str,
    code: String,
    message: String,
}

impl Failure {
    fn new(step: &'static str, code: impl Into<String>, message: &(impl ToString + ?Sized)) -> Self {
        Self { step, code: code.into(), message: message.to_string() }
    }
}

/// Runs stage 1. The machine leaves for the OS, or reboots.
pub fn run(pid1: Pid1) -> ! {
    power::reboot_on_panic(pid1);
    let failure = match boot(pid1) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    console::failure(failure.step, &failure.code, &failure.message);
    TIMELINE.print();
    // Jittered, so that a fleet that fails together does not come back together.
    let wait = Backoff::new(clock::uptime().as_nanos().try_into().unwrap_or(1)).next_ms();
    power::linger(power::READING_TIME + Duration::from_millis(wait));
    power::reboot(pid1)
}

fn boot(pid1: Pid1) -> Result<Infallible, Failure> {
    let (root, prepared, machine) = prepare::prepare(pid1)?;
    let config = prepared.config.clone();
    match smol::block_on(driver::drive(prepared, machine)) {
        Ended::Leaves => leave(pid1, root, &config),
        Ended::Stopped(Stop::Refused { code, message }) => Err(Failure { step: "refused", code, message }),
        Ended::Stopped(Stop::Reset { code, attempts }) => {
            let message = format!("the disk was reset after {attempts} of {} attempts", crate::lifecycle::MAX_ATTEMPTS);
            Err(Failure::new("reset", code.as_str(), &message))
        }
    }
}

/// Becomes the init of the OS. The agent is gone afterwards.
fn leave(pid1: Pid1, root: OpenRoot, config: &Config) -> Result<Infallible, Failure> {
    let step = TIMELINE.begin("leave");
    let root = root.seal().map_err(|e| Failure::new("leave", e.code(), &e))?;
    step.note(&root);
    if let Some(peak) = peak_memory() {
        step.note(format_args!("peak memory {peak}"));
    }
    step.note(format_args!("{} takes over", config.init.display()));
    step.done();
    TIMELINE.print();
    switch_root(pid1, &root, &config.init).map_err(|e| Failure::new("leave", e.code(), &e))
}

/// The most memory this process ever held (`VmHWM`, proc(5)), for the promise in SPECIFICATION.md.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|value| value.trim().to_owned())
}

/// Milliseconds since the kernel started, as everything in this boot counts them.
fn now_ms() -> u64 {
    crate::flows::init::millis(clock::uptime())
}
