//! One helper process.

use super::Start;
use crate::code::KerberosCode;
use crate::denied::Denied;
use crate::wire::{Answer, MAX_ANSWER, Request, announced, framed};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::fmt::Display;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// A process that was opened for its duty. Dropping it kills it.
pub(super) struct Helper {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    started: Instant,
}

impl Helper {
    /// Starts one and opens it.
    pub(super) async fn start(start: &Start) -> Result<Self, Denied> {
        let mut command = Command::new(&start.program);
        command.env_clear().envs(start.environment.iter().map(|(name, path)| (name, path)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            Denied::new(KerberosCode::HelperMissing, format_args!("{}: {error}", start.program.display()))
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Denied::new(KerberosCode::HelperFailed, "it has no pipes"));
        };
        let helper = Self { child, input, output, started: Instant::now() };
        match helper.call(&start.open).await {
            (Ok(Answer::Done), Some(helper)) => Ok(helper),
            (Ok(Answer::Denied(denied)) | Err(denied), _) => Err(denied),
            (Ok(_), _) => Err(failed("another answer than it should give")),
        }
    }

    /// How long it has been running.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether it has not ended yet.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.child.try_status(), Ok(None))
    }

    /// One request and its answer; the helper comes back only if it can take another request.
    pub(super) async fn call(mut self, request: &Request) -> (Result<Answer, Denied>, Option<Self>) {
        match self.exchange(request).await {
            // What cannot be reached stays so for a helper that keeps a connection.
            Ok(Answer::Denied(denied)) if denied.code() == KerberosCode::KadmindUnreachable => {
                (Ok(Answer::Denied(denied)), None)
            }
            Ok(answer) => (Ok(answer), Some(self)),
            Err(denied) => (Err(denied), None),
        }
    }

    async fn exchange(&mut self, request: &Request) -> Result<Answer, Denied> {
        let frame = framed(&request.encode());
        self.input.write_all(&frame).await.map_err(failed)?;
        self.input.flush().await.map_err(failed)?;
        let mut head = [0; 4];
        self.output.read_exact(&mut head).await.map_err(failed)?;
        let mut message = Zeroizing::new(vec![0; announced(head, MAX_ANSWER).map_err(failed)?]);
        self.output.read_exact(&mut message).await.map_err(failed)?;
        Answer::decode(&message).map_err(failed)
    }
}

fn failed(what: impl Display) -> Denied {
    Denied::new(KerberosCode::HelperFailed, what)
}
