//! Trying again, for as long as the user allows.

use std::future::Future;
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use smol::future::FutureExt as _;

use super::ConnectError;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long a command may go on, and how long it pauses between attempts.
pub(crate) struct Patience {
    began: Instant,
    allowed: Duration,
    pause: Duration,
    /// Why the last attempt that came to an end failed.
    last: Option<CommandError>,
}

impl Patience {
    pub(crate) fn new(allowed: Duration) -> Self {
        Self { began: Instant::now(), allowed, pause: FIRST_PAUSE, last: None }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// An attempt got further than the last: the next pause is short again.
    pub(crate) fn renewed(&mut self) {
        self.pause = FIRST_PAUSE;
        self.last = None;
    }

    /// Waits before the next attempt, or gives up with the reason of the last.
    pub(crate) async fn after(&mut self, lost: CommandError) -> Result<(), CommandError> {
        let pause = jittered(self.pause);
        if self.elapsed() + pause >= self.allowed {
            return Err(self.too_late(Some(lost)));
        }
        self.last = Some(lost);
        smol::Timer::after(pause).await;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// Runs an attempt that may take no longer than what is left. One that is cut off says nothing; the last one that was not
    /// says why.
    pub(crate) async fn limit<T>(
        &self,
        attempt: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let left = self.allowed.saturating_sub(self.elapsed());
        let late = async {
            smol::Timer::after(left).await;
            Err(ConnectError::Fatal(self.too_late(self.last.clone())))
        };
        attempt.or(late).await
    }

    /// Attempts until one succeeds or fails for good.
    pub(crate) async fn repeat<T, F>(
        &mut self,
        output: &Output,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, CommandError>
    where
        F: Future<Output = Result<T, ConnectError>>,
    {
        loop {
            match self.limit(attempt()).await {
                Ok(done) => return Ok(done),
                Err(ConnectError::Lost(failure)) => {
                    output.waiting(&waiting_for(&failure));
                    self.after(failure).await?;
                }
                Err(ConnectError::OtherStage(failure) | ConnectError::Fatal(failure)) => return Err(failure),
            }
        }
    }

    fn too_late(&self, lost: Option<CommandError>) -> CommandError {
        let seconds = self.allowed.as_secs();
        match lost {
            Some(lost) => lost.because(format!("tried for {seconds} s")),
            None => CommandError::new(Exit::Unreachable, CommandCode::Timeout, format!("not done within {seconds} s"))
                .fix("look at the node's console, or allow more time with --timeout"),
        }
    }
}

/// What is wrong, for the line that says what is being waited for.
pub(crate) fn waiting_for(failure: &CommandError) -> String {
    match failure.because.first() {
        Some(cause) => format!("{} ({cause})", failure.what),
        None => failure.what.clone(),
    }
}

/// Between half of the pause and all of it: clients that lost the same node do not come back together.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness the pause is not jittered; that harms nobody.
    let _ = SystemRandom::new().fill(&mut random);
    pause / 2 + pause.mul_f64(f64::from(random[0]) / 512.0)
}

/// Runs a command's work.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    smol::block_on(work)
}
