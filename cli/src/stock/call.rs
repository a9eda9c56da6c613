//! One run of a program: everything it may take is limited, and it never outlives the command.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use smol::future::{self, FutureExt as _};
use smol::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use smol::process::{Child, Command};

use super::interrupt::Interrupt;
use super::{Program, StockError};

/// What is kept of what a program says on standard error: its end.
const TAIL: usize = 8 * 1024;
/// The longest line that is shown.
const LINE: usize = 2 * 1024;
/// How long a program may tidy up when it is told to end.
const GRACE: Duration = Duration::from_secs(10);
/// Arguments of a call that an error shows.
const SHOWN: usize = 160;
/// Settings of helm that say where its own files are; all others would change what a call means.
const KEPT: [&str; 7] = [
    "HELM_CACHE_HOME",
    "HELM_CONFIG_HOME",
    "HELM_DATA_HOME",
    "HELM_PLUGINS",
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CONFIG",
    "HELM_REPOSITORY_CACHE",
];

/// A run that is to be made.
pub(super) struct Call<'a> {
    pub(super) program: Program,
    pub(super) file: &'a Path,
    pub(super) arguments: Vec<OsString>,
    /// What it reads from standard input; nothing if it is empty.
    pub(super) input: &'a [u8],
    /// How many bytes it may print.
    pub(super) limit: usize,
    /// How long it may take.
    pub(super) allowed: Duration,
}

/// Who takes each line of standard error as it comes, if somebody does.
pub(crate) type Lines<'a> = Option<&'a mut dyn FnMut(&str)>;

/// How a run ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The end of standard error.
    pub(super) said: String,
}

/// Why a stream was not read to its end.
enum Broken {
    TooLong,
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a run is ended before its time.
enum Cut {
    Late,
    Interrupted,
}

impl Call<'_> {
    /// As one would type it, cut where it is long. No secret is ever an argument.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.program.name().to_owned();
        for argument in &self.arguments {
            shown.push(' ');
            shown.push_str(&argument.to_string_lossy());
        }
        if shown.chars().count() > SHOWN { shown.chars().take(SHOWN).chain("…".chars()).collect() } else { shown }
    }

    /// Runs it to its end. `interrupt` ends it early, unless it is what has to be tidied up then.
    pub(super) async fn run(self, interrupt: Option<&Interrupt>, lines: Lines<'_>) -> Result<Ended, StockError> {
        let call = self.shown();
        let _running = match interrupt.map(Interrupt::begin) {
            Some(None) => return Err(StockError::Interrupted { call }),
            running => running.flatten(),
        };
        let cannot = |source: io::Error| StockError::Start { call: call.clone(), source };
        let mut child = self.command().spawn().map_err(cannot)?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let said = RefCell::new(Tail::default());
        let work = work(&mut child, self.input, self.limit, &said, lines);
        let mut work = std::pin::pin!(work);
        let cut = async {
            let late = async {
                smol::Timer::after(self.allowed).await;
                Cut::Late
            };
            match interrupt {
                None => late.await,
                Some(interrupt) => {
                    let told = async {
                        interrupt.wait().await;
                        Cut::Interrupted
                    };
                    told.or(late).await
                }
            }
        };
        let ended = async { Err(cut.await) }.or(async { Ok(work.as_mut().await) }).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(cut) => {
                signal(group, Signal::TERM);
                let tidied = async { work.as_mut().await.is_ok() };
                let patience = async {
                    smol::Timer::after(GRACE).await;
                    false
                };
                if !tidied.or(patience).await {
                    signal(group, Signal::KILL);
                }
                let said = said.borrow().text();
                return Err(match cut {
                    Cut::Late => StockError::Late { call, allowed: self.allowed, said },
                    Cut::Interrupted => StockError::Interrupted { call },
                });
            }
        };
        match ended {
            Ok((stdout, status)) => Ok(Ended { status, stdout, said: said.borrow().text() }),
            Err(broken) => {
                signal(group, Signal::KILL);
                Err(match broken {
                    Broken::TooLong => StockError::TooLong { call, limit: self.limit },
                    Broken::Io(source) => cannot(source),
                })
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = std::process::Command::new(self.file);
        command.args(&self.arguments);
        for (name, _) in std::env::vars_os() {
            if changes_meaning(&name) {
                command.env_remove(name);
            }
        }
        // A user's preferences would change flags; other languages would change the words that errors are known by.
        command.env("KUBECTL_KUBERC", "false").env("LC_ALL", "C");
        // A group of its own, so that what it starts ends with it.
        command.process_group(0);
        super::tie::tie(&mut command);
        let mut command = Command::from(command);
        command.stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Whether a variable of the environment would make a program do something else than its arguments say.
pub(super) fn changes_meaning(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let foreign = name.starts_with("HELM_") || name.starts_with("KUBECTL_") || name.starts_with("KUBE");
    foreign && !KEPT.contains(&&*name)
}

/// Feeds it, and reads what it says until all of it has ended.
async fn work(
    child: &mut Child,
    input: &[u8],
    limit: usize,
    said: &RefCell<Tail>,
    lines: Lines<'_>,
) -> Result<(Vec<u8>, ExitStatus), Broken> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // Whether it reads it is its own affair, and shows in how it ends.
            drop(stdin.write_all(input).await);
            drop(stdin.close().await);
        }
        Ok(())
    };
    let read = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            // One byte more tells what is too long from what just fits.
            stdout.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
        }
        if bytes.len() > limit { Err(Broken::TooLong) } else { Ok(bytes) }
    };
    let listen = async {
        if let Some(stderr) = stderr {
            listen(stderr, said, lines).await?;
        }
        Ok(())
    };
    let ((), (stdout, ())) = future::try_zip(feed, future::try_zip(read, listen)).await?;
    Ok((stdout, child.status().await?))
}

async fn listen(mut stderr: impl AsyncRead + Unpin, said: &RefCell<Tail>, mut lines: Lines<'_>) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    let mut line = Vec::new();
    loop {
        let count = stderr.read(&mut buffer).await?;
        let new = buffer.get(..count).unwrap_or_default();
        said.borrow_mut().push(new);
        let Some(lines) = lines.as_mut() else {
            if count == 0 {
                return Ok(());
            }
            continue;
        };
        for &byte in new {
            if byte == b'\n' || line.len() == LINE {
                lines(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
            if byte != b'\n' {
                line.push(byte);
            }
        }
        if count == 0 {
            if !line.is_empty() {
                lines(String::from_utf8_lossy(&line).trim_end());
            }
            return Ok(());
        }
    }
}

/// The end of a stream.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let over = self.0.len().saturating_sub(TAIL);
        self.0.drain(..over);
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Tells the program and all that it started. It may have ended at this very moment, which is what is wanted.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}
