//! Runs stock `git http-backend` (git-http-backend(1)) for whoever has the witness.
//!
//! `slots` bounds how many run; `environment` is all that one run knows; `run` feeds it, passes on what it
//! says, and ends it; `head` reads the head of its answer.

mod environment;
mod head;
mod run;
mod slots;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use smol::channel::{Receiver, bounded};
use smol::io::AsyncRead;
use smol::stream::Stream as _;

pub use environment::RequestHead;
pub use head::AnswerHead;

use crate::branches::BranchTable;
use crate::paths::Step;
use crate::repositories::{Repositories, StorageError};
use crate::rights::Authorised;
use run::{Message, Run};
use slots::Slots;

/// Bounds on all runs together and on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Runs at a time.
    pub runs: u32,
    /// Runs at a time for one caller.
    pub runs_per_caller: u32,
    /// Requests that wait for a run.
    pub waiting: u32,
    /// How long a request waits for a run.
    pub wait: Duration,
    /// How long a run may take.
    pub run: Duration,
    /// How long nothing may move, in either direction.
    pub idle: Duration,
    /// The size from which a repository takes no more pushes, in bytes on the disk.
    pub repository: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 16,
            runs_per_caller: 8,
            waiting: 256,
            wait: Duration::from_secs(30),
            run: Duration::from_mins(15),
            idle: Duration::from_mins(1),
            repository: 2 << 30,
        }
    }
}

/// Why a request gets no answer of git, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The repository cannot be had.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// Too many requests at a time.
    #[error("too many requests at the moment; try again in a minute")]
    Busy,
    /// Body or repository would be too large.
    #[error("{what} is larger than {most} bytes; {remedy}")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// The limit.
        most: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A type or coding of the body that git does not use.
    #[error("the body's type must be {0}, as it is or gzip")]
    Unsupported(&'static str),
    /// Too slow.
    #[error("git or its client took too long")]
    Late,
    /// The client's body broke off.
    #[error("the request broke off: {0}")]
    Client(io::Error),
    /// git cannot be run, or what it says is no answer.
    #[error("git gave no answer: {0}")]
    Git(String),
}

/// An answer of git: its head, and the body as it comes.
#[derive(Debug)]
pub struct Answer {
    /// Status and headers.
    pub head: AnswerHead,
    /// The body; git is killed when this is dropped before its end.
    pub body: AnswerBody,
}

/// The body of an answer, as a reader. An error says that there is no more, and that what was read is not all: the client
/// must learn so, too.
pub struct AnswerBody {
    messages: Pin<Box<Receiver<Message>>>,
    /// What came and was not read yet, from `at`.
    bytes: Vec<u8>,
    at: usize,
    ended: bool,
}

/// Runs git. Clones share its limits.
#[derive(Debug, Clone)]
pub struct Backend {
    repositories: Repositories,
    branches: BranchTable,
    slots: Slots,
    limits: Limits,
}

impl Backend {
    /// For `repositories`, telling `branches` what moves.
    pub fn new(repositories: Repositories, branches: BranchTable, limits: Limits) -> Self {
        Self { repositories, branches, slots: Slots::new(limits), limits }
    }

    /// Answers an authorised step. `body` is read as fast as git takes it, and dropped when git is done.
    ///
    /// # Errors
    /// [`BackendError`]; once there is an answer, its body tells of errors.
    pub async fn answer(
        &self,
        authorised: &Authorised,
        request: &RequestHead,
        body: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Answer, BackendError> {
        let limits = self.repositories.limits();
        let most = environment::most_of_body(authorised, limits);
        request.check(authorised, most)?;
        let permit = self.slots.take(authorised.caller()).await?;
        let lease = self.repositories.lease(authorised).await?;
        let size = if lease.is_push() { self.repositories.size(&lease).await } else { 0 };
        if size >= self.limits.repository {
            let (what, remedy) =
                ("the repository", "delete what is not needed, or let an administrator raise the limit");
            return Err(BackendError::TooLarge { what, most: self.limits.repository, remedy });
        }
        let mut command = environment::command(&self.repositories, authorised, request);
        let child = command.spawn().map_err(|error| BackendError::Git(error.to_string()))?;
        let (messages, received) = bounded(2);
        let run = Run { child, lease, _permit: permit, branches: self.branches.clone(), limits: self.limits, most };
        let input = (authorised.step() == Step::Exchange).then_some(body);
        smol::spawn(run.attend(input, messages)).detach();
        match received.recv().await {
            Ok(Message::Head(head)) => {
                let body = AnswerBody { messages: Box::pin(received), bytes: Vec::new(), at: 0, ended: false };
                Ok(Answer { head, body })
            }
            Ok(Message::Failed(error)) => Err(error),
            Ok(Message::Bytes(_) | Message::End) | Err(_) => Err(BackendError::Git("nothing".to_owned())),
        }
    }
}

impl AsyncRead for AnswerBody {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let left = self.bytes.get(self.at..).unwrap_or_default();
            if !left.is_empty() || self.ended {
                let count = left.len().min(buffer.len());
                buffer[..count].copy_from_slice(&left[..count]);
                self.at += count;
                return Poll::Ready(Ok(count));
            }
            match ready!(self.messages.as_mut().poll_next(context)) {
                Some(Message::Bytes(bytes)) => (self.bytes, self.at) = (bytes, 0),
                Some(Message::End) => (self.bytes, self.at, self.ended) = (Vec::new(), 0, true),
                Some(Message::Failed(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Message::Head(_)) | None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }
}

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBody").field("ended", &self.ended).finish_non_exhaustive()
    }
}
