//! The body of a request: read piece by piece, counted, and not waited for beyond a while.

use super::Refusal;
use crate::connection::pace::Pace;
use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::Body as _;
use hyper::body::Incoming;
use smol::Timer;
use smol::io::AsyncRead;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Why a body cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than this request may have.
    #[error("The body is larger than {limit} bytes, which is the most for this request")]
    TooLarge {
        /// Bytes.
        limit: u64,
    },
    /// Nothing came for too long.
    #[error("Nothing of the body came for {} s", waited.as_secs())]
    TooSlow {
        /// How long.
        waited: Duration,
    },
    /// It ended early, or its chunks are none.
    #[error("The body is broken: {0}")]
    Broken(String),
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken(_) => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> Self {
        let kind = match error {
            BodyError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            BodyError::TooSlow { .. } => io::ErrorKind::TimedOut,
            BodyError::Broken(_) => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// The body of a request. What is not asked for stays with the peer: reading slowly makes it send slowly.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    limit: u64,
    count: u64,
    /// Of the last piece, what [`AsyncRead`] has not given yet.
    rest: Bytes,
    patience: Duration,
    waiting: Option<Timer>,
    failed: Option<BodyError>,
    pace: Arc<Pace>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, limit: u64, patience: Duration, pace: Arc<Pace>) -> Self {
        Self { incoming, limit, count: 0, rest: Bytes::new(), patience, waiting: None, failed: None, pace }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`BodyError`]; the same again when asked again.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// All of it, within the limit of this request.
    ///
    /// # Errors
    /// [`BodyError`].
    pub async fn read_all(&mut self) -> Result<Bytes, BodyError> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut all = Vec::with_capacity(first.len() + second.len());
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(more) = self.chunk().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.into())
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        }
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let polled = self.poll_incoming(context);
        if let Poll::Ready(Err(error)) = &polled {
            self.failed = Some(error.clone());
        }
        polled
    }

    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            let frame = match Pin::new(&mut self.incoming).poll_frame(context) {
                Poll::Pending => return self.poll_patience(context).map(Err),
                Poll::Ready(None) => {
                    self.pace.body_read();
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(BodyError::Broken(error.to_string()))),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            self.waiting = None;
            // Trailers mean nothing here.
            let Ok(data) = frame.into_data() else { continue };
            self.count = self.count.saturating_add(data.len() as u64);
            if self.count > self.limit {
                return Poll::Ready(Err(BodyError::TooLarge { limit: self.limit }));
            }
            if self.incoming.is_end_stream() {
                self.pace.body_read();
            }
            if !data.is_empty() {
                return Poll::Ready(Ok(Some(data)));
            }
        }
    }

    /// Ready when nothing has come for too long.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<BodyError> {
        let timer = self.waiting.get_or_insert_with(|| Timer::after(self.patience));
        ready!(Future::poll(Pin::new(timer), context));
        Poll::Ready(BodyError::TooSlow { waited: self.patience })
    }
}

impl AsyncRead for RequestBody {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let Some(mut piece) = ready!(self.poll_chunk(context))? else { return Poll::Ready(Ok(0)) };
        let count = piece.len().min(buffer.len());
        if let Some(place) = buffer.get_mut(..count) {
            piece.copy_to_slice(place);
        }
        self.rest = piece;
        Poll::Ready(Ok(count))
    }
}
