//! Stock git as a child: nothing inherited, bounded in time and in what it says.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use smol::future::{FutureExt as _, zip};
use smol::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use smol::process::{Child, Command, Stdio};

use crate::GitError;

/// Where programs are looked for: git runs its own by their names.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How long one run may take.
const DEADLINE: Duration = Duration::from_mins(1);
/// The most bytes that are read of what a run says.
pub(super) const MAX_OUTPUT: usize = 8 << 20;
/// What is kept of git's complaints, in bytes.
const COMPLAINTS: usize = 2048;

/// Runs git in `repository`, gives it `input`, and takes what it says; kills it when that takes too long.
pub(super) async fn run(repository: &Path, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
    let mut child = Running(command(repository, arguments).spawn().map_err(GitError::Start)?);
    let late = async {
        smol::Timer::after(DEADLINE).await;
        Err(GitError::Late)
    };
    exchange(&mut child.0, input).or(late).await
}

async fn exchange(child: &mut Child, input: &[u8]) -> Result<Vec<u8>, GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A run that wants no more says why by its exit.
            let _fed = stdin.write_all(input).await;
        }
    };
    let said = zip(read(stdout, MAX_OUTPUT), read(stderr, COMPLAINTS));
    let ((), ((output, whole), (complaints, _))) = zip(feeding, said).await;
    let status = child.status().await.map_err(GitError::Start)?;
    if !whole {
        return Err(GitError::Output);
    }
    if status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&complaints);
    Err(GitError::Failed(latchkey_reason::printable(text.trim()).collect()))
}

/// What a pipe says, to its end, and whether that is all of it: what is too much is read and dropped.
async fn read(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> (Vec<u8>, bool) {
    let Some(mut pipe) = pipe else { return (vec![], true) };
    let (mut kept, mut whole, mut buffer) = (vec![], true, vec![0; 16 << 10]);
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = most - kept.len();
        whole &= count <= room;
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    (kept, whole)
}

fn command(repository: &Path, arguments: &[&str]) -> Command {
    let mut std = std::process::Command::new("git");
    std::os::unix::process::CommandExt::process_group(&mut std, 0);
    let mut command = Command::from(std);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("HOME", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_ALLOW_PROTOCOL", "http:https");
    command.current_dir(repository).env("GIT_DIR", repository);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A run that is ended with all that it started, unless it ended by itself.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_status()
            && let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
        {
            // Already gone, then.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
