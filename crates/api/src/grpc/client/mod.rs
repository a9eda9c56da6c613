//! The caller's side: a channel over one connection, and the driver that moves its bytes.

mod call;
mod failure;

pub use call::Streaming;

use super::{
    error::ConnectionError,
    guard::Clock,
    io::Adapter,
    keepalive::{self, Pinger},
    limits::{self, Limits},
    status::{Code, Status},
};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use smol::io::{AsyncRead, AsyncWrite};
use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Calls over one connection. Clones share it; when the last clone and the last call are dropped, it closes.
#[derive(Debug, Clone)]
pub struct Channel {
    requests: SendRequest<Bytes>,
    limits: Limits,
}

impl Channel {
    /// Opens a channel on a byte stream. Nothing moves unless the driver runs: `smol::spawn(driver)`.
    ///
    /// # Errors
    /// If the stream fails at once.
    pub async fn open<S>(stream: S, limits: Limits) -> Result<(Self, Driver), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, mut http2) = builder(&limits).handshake(Adapter::new(stream)).await?;
        let mut pinger = Pinger::new(http2.ping_pong(), limits.keepalive);
        let run = async move {
            let mut http2 = pin!(http2);
            std::future::poll_fn(|cx| match http2.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(ended.map_err(ConnectionError::from)),
                Poll::Pending => keepalive::poll(&mut pinger, cx).map(Err),
            })
            .await
        };
        Ok((Self { requests, limits }, Driver(Box::pin(run))))
    }

    /// Calls a unary method. `path` is `/package.Service/Method`; the generated clients know it.
    ///
    /// # Errors
    /// The status the peer ended the call with, or one for what went wrong on the way: `DEADLINE_EXCEEDED` after
    /// `within`, UNAVAILABLE if the connection is gone, `RESOURCE_EXHAUSTED` for messages above the limits.
    pub async fn unary<Req, Res>(
        &self,
        path: &'static str,
        request: &Req,
        within: Option<Duration>,
    ) -> Result<Res, Status>
    where
        Req: prost::Message,
        Res: prost::Message + Default,
    {
        let mut replies: Streaming<Res> = self.server_streaming(path, request, within).await?;
        // "Response cardinality violation: UNIMPLEMENTED" (gRPC, doc/statuscodes.md).
        let reply = replies.message().await?.ok_or_else(|| Status::unimplemented("the peer sent no reply"))?;
        match replies.message().await? {
            None => Ok(reply),
            Some(_) => Err(Status::unimplemented("the peer sent more than one reply")),
        }
    }

    /// Calls a server-streaming method and waits for the peer's first sign of it. `within` covers the whole call.
    /// Dropping the stream cancels the call.
    ///
    /// # Errors
    /// As [`Channel::unary`].
    pub async fn server_streaming<Req, Res>(
        &self,
        path: &'static str,
        request: &Req,
        within: Option<Duration>,
    ) -> Result<Streaming<Res>, Status>
    where
        Req: prost::Message,
        Res: prost::Message + Default,
    {
        let clock = Clock::new(within.and_then(|within| Instant::now().checked_add(within)));
        call::start(self.requests.clone(), &self.limits, path, request, within, clock).await
    }
}

fn builder(limits: &Limits) -> Builder {
    let window = usize::try_from(limits.connection_window).unwrap_or(usize::MAX);
    let mut builder = Builder::new();
    builder
        .data_frame_budget(window.saturating_mul(limits::SMALL_FRAME_BUDGET_PER_WINDOW_BYTE))
        .enable_push(false)
        .initial_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .max_header_list_size(limits.header_list)
        .max_concurrent_reset_streams(limits::REMEMBERED_RESET_STREAMS)
        .max_pending_accept_reset_streams(limits::PENDING_ACCEPT_RESET_STREAMS)
        .max_local_error_reset_streams(Some(limits::LOCAL_ERROR_RESET_STREAMS));
    builder
}

/// Moves the bytes of a channel's connection. Ends when the connection does; dropping it closes the connection, and
/// open calls end with UNAVAILABLE.
#[must_use = "a channel without its driver never answers"]
pub struct Driver(Pin<Box<dyn Future<Output = Result<(), ConnectionError>> + Send>>);

impl Future for Driver {
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

/// What an unsuccessful answer in plain HTTP means (gRPC, `doc/http-grpc-status-mapping.md`).
fn http_code(status: http::StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}
