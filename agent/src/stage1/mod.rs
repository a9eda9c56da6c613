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

use smol::future::FutureExt as _;

use latchkey_reason::{Reason, reason_codes};

use crate::lifecycle::Stop;
use crate::platform::pid1::Pid1;
use crate::platform::root::OpenRoot;
use crate::platform::switch_root::switch_root;
use crate::platform::timeline::Timeline;
use crate::platform::{clock, console, power};
use latchkey_connection_limits::Backoff;
use latchkey_node_config::Config;

use driver::Ended;
use prepare::Up;

/// All steps of this boot.
static TIMELINE: Timeline = Timeline::new();

/// Why a boot ends without the OS.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {code}: {message}")]
pub struct BootError {
    step: &'static str,
    code: Reason,
    message: String,
}

reason_codes! {
    /// Why a boot ends, or a part of it, that is of no other list.
    pub enum BootCode {
        /// The state disk cannot be opened, or gives no UUID.
        StateDiskUnreadable = "state-disk-unreadable": "check the disk, and that nothing else uses it";
        /// The state partition's table could not be read or written while it grew.
        NotGrown = "state-partition-not-grown": "check the disk";
        /// There is no device mapper.
        DeviceMapper = "device-mapper": "put the module dm-mod into the initramfs, or boot a kernel that has it built in";
        /// The node's name cannot stand on the disk.
        NodeName = "node-name": "give the node a name of lower-case letters, digits, `-` and dots";
        /// The hand-over cannot be written.
        HandOverFailed = "hand-over-failed": "see that /run is writable and has room";
        /// The port cannot be opened.
        ListenFailed = "listen-failed": "find what holds the port, or set another one with latchkey.listen_port";
        /// The hash in metadata is unusable, so nobody can found a cluster on this node.
        InitSecretHash = "init-secret-hash": "make a hash with `latchkey init-secret`";
        /// Another user of the TPM panicked.
        TpmBroken = "tpm-broken": "report this as a bug";
        /// Something that cannot be.
        Bug = "agent-bug": "report this as a bug";
    }
}

impl BootError {
    fn new(step: &'static str, code: impl Into<Reason>, message: &(impl ToString + ?Sized)) -> Self {
        Self { step, code: code.into(), message: message.to_string() }
    }
}

/// How long a node that could leave waits until its cloud knows that it is up.
const REPORT: Duration = Duration::from_secs(10);

/// Runs stage 1. The machine leaves for the OS, or reboots.
pub fn run(pid1: Pid1) -> ! {
    power::reboot_on_panic(pid1);
    let failure = match boot(pid1) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    console::failure(failure.step, failure.code, &failure.message);
    TIMELINE.print();
    // Jittered, so that a fleet that fails together does not come back together.
    let wait = Backoff::new(clock::uptime().as_nanos().try_into().unwrap_or(1)).next_ms();
    power::linger(power::READING_TIME + Duration::from_millis(wait));
    power::reboot(pid1)
}

fn boot(pid1: Pid1) -> Result<Infallible, BootError> {
    let Up { root, prepared, machine, report } = prepare::prepare(pid1)?;
    let config = prepared.config.clone();
    match smol::block_on(driver::drive(prepared, machine)) {
        Ended::Leaves => {
            // Mostly it was told long ago. What is not told by then is not: the node is more than its cloud's word for it.
            let late = async {
                smol::Timer::after(REPORT).await;
            };
            smol::block_on(report.or(late));
            leave(pid1, root, &config)
        }
        Ended::Stopped(Stop::Refused { code, message }) => Err(BootError { step: "refused", code, message }),
        Ended::Stopped(Stop::Reset { code, attempts }) => {
            let message = format!("the disk was reset after {attempts} of {} attempts", crate::lifecycle::MAX_ATTEMPTS);
            Err(BootError::new("reset", code, &message))
        }
    }
}

/// Becomes the init of the OS. The agent is gone afterwards.
fn leave(pid1: Pid1, root: OpenRoot, config: &Config) -> Result<Infallible, BootError> {
    let step = TIMELINE.begin("leave");
    let root = root.seal().map_err(|e| BootError::new("leave", e.code(), &e))?;
    step.note(&root);
    if let Some(peak) = peak_memory() {
        step.note(format_args!("peak memory {peak}"));
    }
    step.note(format_args!("{} takes over", config.init.display()));
    step.done();
    TIMELINE.print();
    switch_root(pid1, &root, &config.init).map_err(|e| BootError::new("leave", e.code(), &e))
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
