//! Messages in and out of HTTP/2 streams, under flow control.

use super::{
    frame::{Deframer, FrameError, Message},
    status::Status,
};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use std::task::{Context, Poll, ready};

/// Reads messages. Holds at most one message and one DATA frame; the peer's window opens only as they are read.
#[derive(Debug)]
pub(crate) struct Inbox {
    body: RecvStream,
    deframer: Deframer,
    chunk: Bytes,
}

/// Why no message can be read.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    Frame(FrameError),
    Http2(h2::Error),
}

impl Inbox {
    pub(crate) fn new(body: RecvStream, limit: usize) -> Self {
        Self { body, deframer: Deframer::new(limit), chunk: Bytes::new() }
    }

    /// The next message, or `None` at the end of the stream.
    pub(crate) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Message>, ReceiveError>> {
        loop {
            if let Some(message) = self.deframer.feed(&mut self.chunk).map_err(ReceiveError::Frame)? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(self.body.poll_data(cx)) {
                None => return Poll::Ready(self.deframer.finish().map(|()| None).map_err(ReceiveError::Frame)),
                Some(Err(error)) => return Poll::Ready(Err(ReceiveError::Http2(error))),
                Some(Ok(chunk)) => {
                    self.body.flow_control().release_capacity(chunk.len()).map_err(ReceiveError::Http2)?;
                    self.chunk = chunk;
                }
            }
        }
    }

    pub(crate) fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<HeaderMap>, h2::Error>> {
        self.body.poll_trailers(cx)
    }
}

/// Sends what is left of `data` as the peer's window opens; `end` closes this side of the stream with the last byte.
pub(crate) fn poll_send(
    stream: &mut SendStream<Bytes>,
    cx: &mut Context<'_>,
    data: &mut Bytes,
    end: bool,
) -> Poll<Result<(), h2::Error>> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match ready!(stream.poll_capacity(cx)) {
                Some(room) => room?,
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            };
        }
        let part = data.split_to(room.min(data.len()));
        stream.send_data(part, end && data.is_empty())?;
    }
    Poll::Ready(Ok(()))
}

/// The code for a peer's bad framing (gRPC, `doc/statuscodes.md` and `doc/compression.md`).
pub(crate) fn frame_status(error: FrameError) -> Status {
    match error {
        FrameError::TooLarge { .. } => Status::resource_exhausted(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}
