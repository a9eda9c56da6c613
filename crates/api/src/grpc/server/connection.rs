//! One connection: accepts its calls, watches over it, ends it.

use super::{Routes, call::Call};
use crate::grpc::{
    error::ConnectionError,
    io::Adapter,
    keepalive::{self, Pinger},
    limits::{self, Limits},
};
use bytes::Bytes;
use h2::server::{Builder, Connection};
use smol::{
    Executor, Timer,
    future::FutureExt,
    io::{AsyncRead, AsyncWrite},
};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

/// Serves the connection to its end. Its calls run inside this future, and are dropped with it.
pub(super) async fn serve<C, S>(
    routes: Arc<Routes<C>>,
    limits: Limits,
    stream: S,
    context: Arc<C>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ConnectionError>
where
    C: Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = async { Ok(builder(&limits).handshake(Adapter::new(stream)).await?) };
    let timeout = async {
        Timer::after(limits.handshake).await;
        Err(ConnectionError::Handshake(limits.handshake))
    };
    let mut http2 = handshake.or(timeout).await?;
    let mut supervisor = Supervisor {
        pinger: Pinger::new(http2.ping_pong(), limits.keepalive),
        http2,
        open: OpenCalls::default(),
        timer: Timer::after(limits.idle),
        draining: false,
        routes,
        limits,
        context,
    };
    let mut stop = pin!(stop);
    let calls = Executor::new();
    calls.run(std::future::poll_fn(|cx| supervisor.poll(cx, &calls, stop.as_mut()))).await
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .max_header_list_size(limits.header_list)
        .max_concurrent_streams(limits.concurrent_calls)
        .max_concurrent_reset_streams(limits::REMEMBERED_RESET_STREAMS)
        .max_pending_accept_reset_streams(limits::PENDING_ACCEPT_RESET_STREAMS)
        .max_local_error_reset_streams(Some(limits::LOCAL_ERROR_RESET_STREAMS));
    builder
}

/// The connection and what it is watched for.
struct Supervisor<C, S> {
    http2: Connection<Adapter<S>, Bytes>,
    pinger: Option<Pinger>,
    open: OpenCalls,
    /// Runs out when the connection has idled, or drained, for too long.
    timer: Timer,
    draining: bool,
    routes: Arc<Routes<C>>,
    limits: Limits,
    context: Arc<C>,
}

impl<C: Send + Sync + 'static, S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Supervisor<C, S> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        calls: &Executor<'static>,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Result<(), ConnectionError>> {
        if !self.draining && stop.poll(cx).is_ready() {
            self.drain();
        }
        while let Poll::Ready(accepted) = self.http2.poll_accept(cx) {
            let Some(accepted) = accepted else { return Poll::Ready(Ok(())) };
            let (request, respond) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => return Poll::Ready(self.ended(error)),
            };
            calls.spawn(self.call(request, respond)).detach();
        }
        if let Poll::Ready(error) = keepalive::poll(&mut self.pinger, cx) {
            return Poll::Ready(Err(error));
        }
        self.poll_timer(cx)
    }

    fn call(
        &self,
        request: http::Request<h2::RecvStream>,
        respond: h2::server::SendResponse<Bytes>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (head, body) = request.into_parts();
        let open = self.open.enter();
        let (routes, context) = (Arc::clone(&self.routes), Arc::clone(&self.context));
        let call = Call { routes, limits: self.limits, context, head, body, respond };
        async move {
            call.run().await;
            drop(open);
        }
    }

    /// A peer that hangs up while none of its calls is open has done nothing wrong.
    fn ended(&self, error: h2::Error) -> Result<(), ConnectionError> {
        if error.is_io() && self.open.idle_since().is_some() { Ok(()) } else { Err(error.into()) }
    }

    /// Tells the peer to make no new calls; the connection ends when the open ones have.
    fn drain(&mut self) {
        self.draining = true;
        self.http2.graceful_shutdown();
        self.timer.set_after(self.limits.drain);
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        while Pin::new(&mut self.timer).poll(cx).is_ready() {
            if self.draining && self.open.idle_since().is_some() {
                return Poll::Ready(Ok(())); // The peer keeps an idle connection open; this side hangs up.
            }
            if self.draining {
                return Poll::Ready(Err(ConnectionError::Drain(self.limits.drain)));
            }
            let now = Instant::now();
            let until = self.open.idle_since().unwrap_or(now) + self.limits.idle;
            if until > now {
                self.timer.set_at(until);
            } else {
                self.drain();
                // The GOAWAY leaves with the next poll of the connection.
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

/// How many calls are open, and since when none is.
#[derive(Clone)]
struct OpenCalls(Arc<Mutex<(usize, Instant)>>);

impl Default for OpenCalls {
    fn default() -> Self {
        Self(Arc::new(Mutex::new((0, Instant::now()))))
    }
}

impl OpenCalls {
    fn enter(&self) -> OpenCall {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        OpenCall(self.clone())
    }

    /// `None` while calls are open.
    fn idle_since(&self) -> Option<Instant> {
        let (open, last) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (open == 0).then_some(last)
    }
}

/// Counts as one open call until dropped.
struct OpenCall(OpenCalls);

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls = (calls.0.saturating_sub(1), Instant::now());
    }
}
