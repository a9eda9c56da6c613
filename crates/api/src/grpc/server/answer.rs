//! The answer to one call: headers, replies, trailers, or trailers alone.

use crate::grpc::{status::Status, transfer, wire};
use bytes::Bytes;
use h2::{SendStream, server::SendResponse};
use http::{Response, StatusCode, header::CONTENT_TYPE};
use std::task::{Context, Poll};

/// What has been sent of the answer.
pub(super) struct Answer {
    respond: SendResponse<Bytes>,
    /// The stream for replies, once headers are sent.
    stream: Option<SendStream<Bytes>>,
}

impl Answer {
    pub(super) fn new(respond: SendResponse<Bytes>) -> Self {
        Self { respond, stream: None }
    }

    /// Ready when the caller reset the stream or the connection is gone.
    pub(super) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.stream {
            Some(stream) => stream.poll_reset(cx).map(drop),
            None => self.respond.poll_reset(cx).map(drop),
        }
    }

    /// Sends one framed reply, headers first if it is the first.
    pub(super) async fn reply(&mut self, mut reply: Bytes) -> Result<(), h2::Error> {
        let stream = self.started()?;
        std::future::poll_fn(|cx| transfer::poll_send(stream, cx, &mut reply, false)).await
    }

    /// Ends the call. A failure before the first reply is a single header block ("Trailers-Only").
    pub(super) fn finish(&mut self, outcome: Result<(), &Status>) -> Result<(), h2::Error> {
        if self.stream.is_none() && outcome.is_err() {
            let mut response = headers();
            wire::put_status(response.headers_mut(), outcome);
            // A caller that used an encoding learns from any early failure which ones there are.
            response.headers_mut().insert(wire::GRPC_ACCEPT_ENCODING, wire::IDENTITY);
            return self.respond.send_response(response, true).map(drop);
        }
        let mut trailers = http::HeaderMap::with_capacity(2);
        wire::put_status(&mut trailers, outcome);
        self.started()?.send_trailers(trailers)
    }

    /// Answers what is not gRPC at all, in HTTP's own terms.
    pub(super) fn refuse(&mut self, status: StatusCode) -> Result<(), h2::Error> {
        let mut response = Response::new(());
        *response.status_mut() = status;
        self.respond.send_response(response, true).map(drop)
    }

    fn started(&mut self) -> Result<&mut SendStream<Bytes>, h2::Error> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.respond.send_response(headers(), false)?,
        };
        Ok(self.stream.insert(stream))
    }
}

fn headers() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, wire::APPLICATION_GRPC);
    response
}
