//! What this process gives up before it sees a secret.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::fs::File;
use std::io;

/// No core dump, no debugger of the same user; standard output becomes the pipe for answers alone: whatever a library prints
/// goes to standard error.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn confine() -> io::Result<File> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let answers = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(answers))
}
