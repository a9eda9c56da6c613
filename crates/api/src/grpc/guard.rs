//! What ends a piece of work from outside: the call's deadline, a peer that gave up, a peer that does nothing.

use smol::Timer;
use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// A call's deadline.
#[derive(Debug)]
pub(crate) struct Clock {
    deadline: Option<Instant>,
    timer: Option<Timer>,
}

impl Clock {
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, timer: None }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn has_passed(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Ready once the deadline has passed.
    fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Timer::at(deadline));
        Pin::new(timer).poll(cx).map(drop)
    }
}

/// What ended the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The call's deadline passed.
    Deadline,
    /// The peer reset the stream or the connection is gone.
    Cancelled,
    /// The work took longer than one step may.
    Stalled,
}

/// Runs `work` until it is done, the deadline passes, `cancelled` is ready, or `stall` has gone by.
pub(crate) async fn guard<T>(
    work: impl Future<Output = T>,
    clock: &mut Clock,
    stall: Option<Duration>,
    mut cancelled: impl FnMut(&mut Context<'_>) -> Poll<()>,
) -> Result<T, Interrupt> {
    let mut work = pin!(work);
    let mut stalled: Option<Timer> = None;
    std::future::poll_fn(|cx| {
        // Before the work, which might always be ready; its timer comes after, since most work is done at once.
        if clock.has_passed() {
            return Poll::Ready(Err(Interrupt::Deadline));
        }
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        if cancelled(cx).is_ready() {
            return Poll::Ready(Err(Interrupt::Cancelled));
        }
        if clock.poll_passed(cx).is_ready() {
            return Poll::Ready(Err(Interrupt::Deadline));
        }
        if let Some(stall) = stall
            && Pin::new(stalled.get_or_insert_with(|| Timer::after(stall))).poll(cx).is_ready()
        {
            return Poll::Ready(Err(Interrupt::Stalled));
        }
        Poll::Pending
    })
    .await
}
