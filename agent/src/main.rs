//! `latchkey-agent`: process 1 of the initramfs (stage 1), or `latchkey-agent stage2` in the OS.

#[cfg(all(panic = "abort", target_env = "musl"))]
mod no_unwinder;

use std::io::{self, Write as _};
use std::process::ExitCode;

use latchkey_agent::platform::pid1::Pid1;
use latchkey_agent::{enrol, stage1, stage2};
use latchkey_wiping_allocator::WipingAllocator;

/// Keys pass through buffers of libraries, which do not wipe what they free.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator::new();

const USAGE: &str = "\
latchkey-agent, the node agent

  as process 1 of the initramfs   stage 1: attest, obtain the key, lock, open the disk, start the OS
  latchkey-agent stage2           stage 2, a oneshot of the OS: make the node a member, report, exit
  latchkey-agent stage2-ended     after it, however it ended (systemd's ExecStopPost=): wipes what it left behind, and
                                  restarts the machine if it died
  latchkey-agent renew-certificates
                                  by a timer of a control plane: renews its certificates where little is left of one
  latchkey-agent enrol            after stage 2 of a cluster's first node: registers the cluster at the centre that the command
                                  line names, and applies what the centre answers
  latchkey-agent --version

Its configuration is the measured kernel command line (latchkey.*); there are no other options.
";

fn main() -> ExitCode {
    // Process 1 gets words of the kernel command line as arguments: they are not for us.
    if let Ok(pid1) = Pid1::claim() {
        stage1::run(pid1);
    }
    let mut arguments = std::env::args_os().skip(1);
    let (first, more) = (arguments.next(), arguments.next().is_some());
    match first.as_ref().and_then(|first| first.to_str()) {
        Some("stage2") if !more => stage2::run(),
        Some("stage2-ended") if !more => stage2::ended(),
        Some("renew-certificates") if !more => stage2::renew_certificates(),
        Some("enrol") if !more => enrol::run(),
        Some("--version") if !more => print(concat!("latchkey-agent ", env!("CARGO_PKG_VERSION"), "\n")),
        Some("--help" | "-h") if !more => print(USAGE),
        _ => {
            // Without standard error there is nobody to tell; the exit code remains.
            drop(io::stderr().write_all(USAGE.as_bytes()));
            ExitCode::from(2)
        }
    }
}

/// Writes to standard output. What could not be written is a failure; a reader that went away (`| head`) chose so, and gets
/// the exit code by which a shell tells of SIGPIPE.
fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(128 + 13),
        Err(error) => {
            drop(writeln!(io::stderr(), "latchkey-agent: cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}
