//! The console: one line per thing worth saying, readable by humans and by tests.
//!
//! ```text
//! latchkey[    1.802] mounts: begin
//! latchkey[    1.806] mounts: done in 0.004 s
//! latchkey[    2.115] network: failed: no-carrier: no network interface has a cable …
//! ```
//!
//! Every line is `latchkey[SECONDS.MILLISECONDS] STEP: MESSAGE`, matched by the regular expression
//! `^latchkey\[ *(\d+)\.(\d{3})\] ([a-z0-9-]+): (.*)$`; the time counts from the start of the kernel. Messages contain
//! no control characters, so nothing a peer or a host names itself can forge a line or command a terminal. Lines go to
//! standard error (the console, when the agent is process 1) and to the kernel log, there with priority *debug*: it is
//! in `dmesg`, and the console does not show it twice.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use latchkey_reason::Reason;

use super::pid1::Pid1;
use super::{clock, mounts::MountError};

/// The longest message printed; a longer one is cut.
pub const MAX_MESSAGE: usize = 900;

static KERNEL_LOG: OnceLock<File> = OnceLock::new();

/// Connects standard output and error to `/dev/console`, for writing only, standard input to nothing, and opens the
/// kernel log. What somebody types has nowhere to go in stage 1.
pub fn attach(_: Pid1) -> Result<(), MountError> {
    let connect = || -> io::Result<()> {
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let console = OpenOptions::new().write(true).open("/dev/console")?;
        rustix::stdio::dup2_stdout(&console)?;
        Ok(rustix::stdio::dup2_stderr(&console)?)
    };
    connect().map_err(|source| MountError::Console { source })?;
    // Else the kernel drops lines written in a burst, and a boot is a burst. An old kernel without it is no reason to
    // stop; neither is a missing kernel log: the console has the same lines.
    let _ = std::fs::write("/proc/sys/kernel/printk_devkmsg", "on\n");
    open_kernel_log(Path::new("/dev/kmsg"));
    Ok(())
}

/// Gives standard input back, as the operating system's init expects it: the kernel starts an init with `/dev/console` as
/// its input. A console that cannot be read leaves it with nothing.
pub(super) fn give_back(_: Pid1) {
    if let Ok(console) = OpenOptions::new().read(true).write(true).open("/dev/console") {
        let _ = rustix::stdio::dup2_stdin(console);
    }
}

/// Prints a line.
pub fn line(step: &str, message: &str) {
    emit(&render(clock::uptime().as_millis(), step, message));
}

/// Prints a picture of this program's own, without what lines begin with: it would be too wide. In one write, so that no line of another
/// thread comes in between, and not to the kernel log.
pub fn picture(text: &impl std::fmt::Display) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints the line of a failure: `STEP: failed: CODE: SENTENCE; REMEDY`.
pub fn failure(step: &str, reason: impl Into<Reason>, sentence: &str) {
    line(step, &format!("failed: {}", with_remedy(reason.into(), sentence)));
}

/// A failure as people read it: `CODE: SENTENCE; REMEDY`.
pub(crate) fn with_remedy(reason: Reason, sentence: &str) -> String {
    format!("{reason}: {sentence}; {}", reason.remedy)
}

fn open_kernel_log(path: &Path) {
    if let Ok(file) = OpenOptions::new().write(true).open(path) {
        let _ = KERNEL_LOG.set(file);
    }
}

/// Facility daemon (3), severity debug (7): RFC 5424 section 6.2.1, `3 * 8 + 7`.
const KERNEL_LOG_PRIORITY: &str = "<31>";

fn emit(line: &str) {
    // One write per line, so that lines of several threads never mix. A console that is gone is no reason to stop.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(mut log) = KERNEL_LOG.get() {
        let _ = log.write_all(format!("{KERNEL_LOG_PRIORITY}{line}").as_bytes());
    }
}

fn render(millis: u128, step: &str, message: &str) -> String {
    let mut line = format!("latchkey[{:5}.{:03}] {step}: ", millis / 1000, millis % 1000);
    let room = line.len() + MAX_MESSAGE;
    for c in latchkey_reason::printable(message) {
        if line.len() + c.len_utf8() > room {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_documented_shape() {
        assert_eq!(render(1802, "mounts", "begin"), "latchkey[    1.802] mounts: begin\n");
        assert_eq!(render(123_456_007, "a-b", "x"), "latchkey[123456.007] a-b: x\n");
    }

    #[test]
    fn a_hostile_name_can_not_forge_a_line_or_command_the_terminal() {
        let line = render(0, "metadata", "name \"x\nlatchkey[    9.999] lock: done\r\u{1b}[2J\u{202e}\"");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with('\n'));
        assert!(!line.contains(['\r', '\u{1b}', '\u{202e}']));
    }

    #[test]
    fn a_long_message_is_cut() {
        let line = render(0, "x", &"ä".repeat(5000));
        assert!(line.len() < MAX_MESSAGE + 40, "{}", line.len());
        assert!(line.ends_with("…\n"));
    }
}
