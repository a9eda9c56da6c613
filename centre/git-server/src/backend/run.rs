//! One run: fed, listened to, and ended, whatever its client does.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use smol::Timer;
use smol::channel::Sender;
use smol::future::{FutureExt, pending, zip};
use smol::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use smol::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::head::{self, AnswerHead};
use super::slots::Permit;
use super::{BackendError, Limits, environment};
use crate::branches::BranchTable;
use crate::git;
use crate::repositories::Lease;

/// One read, in bytes.
const CHUNK: usize = 32 * 1024;
/// What is kept of git's complaints, in bytes.
const COMPLAINTS: usize = 2048;
/// How long the rest of a body is read after git said all: a client that hears a reset instead cannot show why.
const LINGER: Duration = Duration::from_secs(10);

/// What the run says, in this order; the last is an end or a failure.
#[derive(Debug)]
pub(super) enum Message {
    Head(AnswerHead),
    Bytes(Vec<u8>),
    End,
    Failed(BackendError),
}

pub(super) struct Run {
    pub(super) child: Child,
    pub(super) lease: Lease,
    pub(super) _permit: Permit,
    pub(super) branches: BranchTable,
    pub(super) limits: Limits,
    /// The most bytes of the body.
    pub(super) most: u64,
}

impl Run {
    /// Attends to it until nothing of it is left.
    pub(super) async fn attend(mut self, body: Option<impl AsyncRead + Send + Unpin>, messages: Sender<Message>) {
        let moved = AtomicU64::new(0);
        let (stdin, mut stdout, stderr) = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let unwanted = async {
            messages.closed().await;
            Err(BackendError::Client(io::ErrorKind::ConnectionAborted.into()))
        };
        let exchange = self.exchange(body.zip(stdin), stdout.as_mut(), stderr, &messages, &moved);
        let outcome = unwanted.or(late(self.limits, &moved)).or(exchange).await;
        let outcome = self.end(stdout, outcome).await;
        // Whoever is told the end sees what moved.
        if self.lease.is_push() {
            if outcome.is_err() {
                self.lease.clear_half_pushes();
            }
            self.branches.moved(self.lease.uuid());
        }
        drop(self);
        // Nobody may be left to hear it.
        let _heard = messages.send(outcome.map_or_else(Message::Failed, |()| Message::End)).await;
    }

    /// The body in, the answer out, until git has said all.
    async fn exchange(
        &self,
        input: Option<(impl AsyncRead + Send + Unpin, ChildStdin)>,
        stdout: Option<&mut ChildStdout>,
        stderr: Option<ChildStderr>,
        messages: &Sender<Message>,
        moved: &AtomicU64,
    ) -> Result<(), BackendError> {
        let (fed, told_all) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut feeding = pin!(async {
            if let Some((body, stdin)) = input {
                feed(body, stdin, self.most, moved).await?;
            }
            fed.store(true, Relaxed);
            // The end of the body is not the end of the answer.
            if told_all.load(Relaxed) { Ok(()) } else { pending().await }
        });
        let telling = zip(tell(stdout, messages, moved), complaints(stderr));
        let told = async {
            let (told, complaints) = telling.await;
            if !complaints.is_empty() {
                tracing::info!(repository = %self.lease.uuid(), %complaints, "git complains");
            }
            told
        };
        feeding.as_mut().or(told).await?;
        if fed.load(Relaxed) {
            return Ok(());
        }
        told_all.store(true, Relaxed);
        // What git does not want any more is let in for a while: a client that hears a reset cannot show what git said.
        let patience = async {
            Timer::after(LINGER).await;
            Ok(())
        };
        feeding.or(patience).await
    }

    /// Waits until nothing runs any more; kills it where the exchange failed.
    async fn end(
        &mut self,
        stdout: Option<ChildStdout>,
        outcome: Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let outcome = match outcome {
            Ok(()) => {
                let exited =
                    async { self.child.status().await.map(drop).map_err(|error| BackendError::Git(error.to_string())) };
                exited.or(late(self.limits, &AtomicU64::new(0))).await
            }
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            git::kill_group(&self.child);
            // Whatever still has the other end of this pipe could still write to the repository.
            if let Some(mut stdout) = stdout {
                let _dropped = smol::io::copy(&mut stdout, &mut smol::io::sink()).await;
            }
            let _killed = self.child.status().await;
        }
        outcome
    }
}

/// Ends when a run took too long, or nothing moved for too long.
async fn late(limits: Limits, moved: &AtomicU64) -> Result<(), BackendError> {
    let all = async {
        Timer::after(limits.run).await;
    };
    let idle = async {
        let mut before = None;
        while before != Some(moved.load(Relaxed)) {
            before = Some(moved.load(Relaxed));
            Timer::after(limits.idle).await;
        }
    };
    all.or(idle).await;
    Err(BackendError::Late)
}

/// Gives git the body, as fast as git takes it; the rest is read and dropped once git wants no more.
async fn feed(
    mut body: impl AsyncRead + Unpin,
    stdin: ChildStdin,
    most: u64,
    moved: &AtomicU64,
) -> Result<(), BackendError> {
    let (mut stdin, mut buffer, mut total) = (Some(stdin), vec![0; CHUNK], 0);
    loop {
        let count = body.read(&mut buffer).await.map_err(BackendError::Client)?;
        if count == 0 {
            return Ok(());
        }
        total += count as u64;
        if total > most {
            return Err(environment::too_large(most));
        }
        moved.fetch_add(1, Relaxed);
        if let Some(open) = &mut stdin
            && open.write_all(&buffer[..count]).await.is_err()
        {
            stdin = None;
        }
    }
}

/// Passes on what git says: the head, then the rest as it comes.
async fn tell(
    stdout: Option<&mut ChildStdout>,
    messages: &Sender<Message>,
    moved: &AtomicU64,
) -> Result<(), BackendError> {
    let stdout = stdout.ok_or_else(|| BackendError::Git("it has no output".to_owned()))?;
    let (mut buffer, mut begun) = (vec![0; CHUNK], Some(Vec::new()));
    loop {
        let count = stdout.read(&mut buffer).await.map_err(|error| BackendError::Git(error.to_string()))?;
        moved.fetch_add(1, Relaxed);
        if count == 0 {
            return begun.map_or(Ok(()), |_| Err(BackendError::Git("its answer has no head".to_owned())));
        }
        let Some(mut before) = begun.take() else {
            say(messages, Message::Bytes(buffer[..count].to_vec())).await?;
            continue;
        };
        before.extend_from_slice(&buffer[..count]);
        match head::read(&before)? {
            None => begun = Some(before),
            Some((head, length)) => {
                say(messages, Message::Head(head)).await?;
                say(messages, Message::Bytes(before.split_off(length))).await?;
            }
        }
    }
}

async fn say(messages: &Sender<Message>, message: Message) -> Result<(), BackendError> {
    messages.send(message).await.map_err(|_| BackendError::Client(io::ErrorKind::ConnectionAborted.into()))
}

/// What git says to nobody, for the log: the beginning of it, on one line.
async fn complaints(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut buffer, mut kept) = (vec![0; CHUNK], Vec::new());
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count.min(COMPLAINTS - kept.len())]);
    }
    latchkey_reason::printable(String::from_utf8_lossy(&kept).trim_end()).collect()
}
