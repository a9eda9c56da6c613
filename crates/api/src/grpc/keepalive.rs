//! Pings that notice a peer that is gone without a word.

use super::{error::ConnectionError, limits::Keepalive};
use h2::{Ping, PingPong};
use smol::Timer;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Sends a ping each interval and gives the connection up when an answer is overdue.
pub(crate) struct Pinger {
    pings: PingPong,
    times: Keepalive,
    timer: Timer,
    waiting: bool,
}

impl Pinger {
    /// `None` if no pings are wanted.
    pub(crate) fn new(pings: Option<PingPong>, times: Option<Keepalive>) -> Option<Self> {
        let (pings, times) = pings.zip(times)?;
        Some(Self { pings, times, timer: Timer::after(times.interval), waiting: false })
    }

    /// Advances; an error is the end of the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionError> {
        loop {
            if self.waiting && self.pings.poll_pong(cx).is_ready() {
                self.waiting = false;
                self.timer.set_after(self.times.interval);
            }
            if Pin::new(&mut self.timer).poll(cx).is_pending() {
                return Ok(());
            }
            if self.waiting {
                return Err(ConnectionError::Unresponsive(self.times.timeout));
            }
            // Fails only on a connection that is over, which its own poll reports.
            self.waiting = self.pings.send_ping(Ping::opaque()).is_ok();
            self.timer.set_after(if self.waiting { self.times.timeout } else { self.times.interval });
        }
    }
}

/// Polls the pinger of a connection that may have none.
pub(crate) fn poll(pinger: &mut Option<Pinger>, cx: &mut Context<'_>) -> Poll<ConnectionError> {
    match pinger.as_mut().map_or(Ok(()), |pinger| pinger.poll(cx)) {
        Ok(()) => Poll::Pending,
        Err(error) => Poll::Ready(error),
    }
}
