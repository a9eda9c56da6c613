//! One session with the broker, carried by a stream.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mqtt_proto::v3::{Connect, Packet};
use smol::Timer;
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::mqtt::{FrameError, Frames, Stream, encode};
use crate::node::{Action, Fault, Moment, News, Node};

/// How long the broker may take to accept what is sent.
const WRITE: Duration = Duration::from_secs(10);
/// The same for the last words of a program that was asked to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why a session is over that nobody wanted to end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// What the node says of it.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// What came is no MQTT.
    #[error("the broker sent {0}")]
    Frame(#[from] FrameError),
    /// The connection broke.
    #[error("the connection to the broker broke: {0}")]
    Broken(#[from] io::Error),
    /// The broker ended it: its log says why.
    #[error(
        "the broker ended the connection; its log says why: often that the account's rights have ended, or that another client has this one's identifier"
    )]
    Closed,
}

/// Since when moments count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Now, also by the machine's clock.
    pub(crate) fn now(self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { elapsed: self.0.elapsed(), clock_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }
}

/// What happens next in a session.
enum Next<E> {
    End(E),
    Due,
    Received(usize),
}

/// Carries a session until `end` is ready, and says farewell then. `connect` has name and password; `tell` hears of what happens.
pub(crate) async fn carry<E>(
    mut stream: Stream,
    node: &mut Node,
    connect: Connect,
    clock: Clock,
    end: impl Future<Output = E>,
    mut tell: impl FnMut(News),
) -> Result<E, SessionError> {
    let mut end = pin!(end);
    let (mut frames, mut buffer) = (Frames::default(), vec![0; 8 << 10]);
    send(&mut stream, &Packet::Connect(connect), WRITE).await?;
    loop {
        let due = clock.0.checked_add(node.deadline()).map_or_else(Timer::never, Timer::at);
        let next = {
            let ended = async { Ok(Next::End(end.as_mut().await)) };
            let passed = async {
                due.await;
                Ok(Next::Due)
            };
            let received = async { stream.read(&mut buffer).await.map(Next::Received) };
            ended.or(passed).or(received).await?
        };
        match next {
            Next::End(how) => {
                for packet in node.farewell(clock.now()) {
                    send(&mut stream, &packet, LAST_WORDS).await?;
                }
                return Ok(how);
            }
            Next::Due => act(&mut stream, node.passed(clock.now())?, &mut tell).await?,
            Next::Received(0) => return Err(SessionError::Closed),
            Next::Received(count) => {
                frames.push(buffer.get(..count).unwrap_or_default());
                while let Some(packet) = frames.packet()? {
                    act(&mut stream, node.received(packet, clock.now())?, &mut tell).await?;
                }
            }
        }
    }
}

async fn act(stream: &mut Stream, actions: Vec<Action>, tell: &mut impl FnMut(News)) -> Result<(), SessionError> {
    for action in actions {
        match action {
            Action::Send(packet) => send(stream, &packet, WRITE).await?,
            Action::Tell(news) => tell(news),
        }
    }
    Ok(())
}

async fn send(stream: &mut Stream, packet: &Packet, limit: Duration) -> Result<(), SessionError> {
    let bytes = encode(packet)?;
    let writing = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    let late = async {
        Timer::after(limit).await;
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("it took nothing for {} s", limit.as_secs())))
    };
    Ok(writing.or(late).await?)
}
