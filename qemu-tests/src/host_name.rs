//! A name for this machine that virtual machines can have for it, too: a centre's URLs are the same for everybody.
//!
//! Browsers take every name below `localhost` for their own machine. Other programs ask the resolver: where it does not know the name,
//! the test or demonstration runs once more in a mount namespace with a file of hosts that does. Inside a virtual machine the site's name
//! server says it: [`crate::kubernetes::Site::names_host`].

use std::net::ToSocketAddrs as _;
use std::process::{Command, ExitStatus, Stdio};

use crate::doctor::need;
use crate::error::{HarnessError, io_error};
use crate::process::{Process, spawn};
use crate::run::Run;

/// What a centre of tests is called where virtual machines reach it.
pub const NAME: &str = "centre.localhost";
/// Set in the program that runs once more.
const INSIDE: &str = "LATCHKEY_HOST_NAME";
/// What a virtual machine does takes minutes; the program that runs inside has the deadlines.
const LONGEST: std::time::Duration = std::time::Duration::from_hours(2);

/// Whether the name leads to this machine, and nowhere else.
fn leads_here() -> bool {
    (NAME, 0).to_socket_addrs().is_ok_and(|mut all| {
        let first = all.next();
        first.into_iter().chain(all).all(|address| address.ip().is_loopback()) && first.is_some()
    })
}

/// Runs this program once more with these arguments, where the name leads to this machine, and says how it ended. `None`: it does so
/// here.
pub fn again(arguments: &[String]) -> Result<Option<ExitStatus>, HarnessError> {
    if leads_here() {
        return Ok(None);
    }
    if std::env::var_os(INSIDE).is_some() {
        return Err(HarnessError::Unusable(format!(
            "{NAME} does not lead to this machine, although /etc/hosts says so"
        )));
    }
    let run = Run::new("host-name")?;
    let known = std::fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".into());
    let hosts = run.write("hosts", format!("127.0.0.1 {NAME}\n{known}"))?;
    let own = std::env::current_exe().map_err(io_error("find", "myself".as_ref()))?;
    let mut command = Command::new(need("unshare")?);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-euc", "mount --bind \"$1\" /etc/hosts; shift; exec \"$@\"", "sh"]);
    command.arg(hosts).arg(own).args(arguments).env(INSIDE, "1").stdin(Stdio::null());
    let inside = Process::watch(spawn(command).map_err(io_error("start", "unshare".as_ref()))?);
    let ended = inside.map_err(io_error("watch", "unshare".as_ref()))?.wait(LONGEST);
    ended.map(Some).ok_or_else(|| HarnessError::Deadline {
        name: "the program with a name for this machine".into(),
        event: "end".into(),
        after: LONGEST,
        tail: String::new(),
    })
}

/// The same for one test of a test program. `true`: it has run there, and passed.
pub fn test_again(name: &str) -> Result<bool, HarnessError> {
    let arguments = ["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"].map(str::to_owned);
    match again(&arguments)? {
        None => Ok(false),
        Some(status) if status.success() => Ok(true),
        Some(status) => Err(HarnessError::Unusable(format!("{name}, where this machine has a name: {status}"))),
    }
}
