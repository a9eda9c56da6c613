//! One call, from its headers to its status.

use super::{
    Routes,
    answer::Answer,
    service::{Inbound, Running, Service},
};
use crate::grpc::{
    frame::Message,
    guard::{Clock, Interrupt, guard},
    limits::Limits,
    status::{Code, Status},
    timeout,
    transfer::{self, Inbox, ReceiveError},
    wire,
};
use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Method, StatusCode, request::Parts};
use smol::{future::FutureExt, stream::Stream};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

/// A call whose headers have arrived.
pub(super) struct Call<C> {
    pub(super) routes: Arc<Routes<C>>,
    pub(super) limits: Limits,
    pub(super) context: Arc<C>,
    pub(super) head: Parts,
    pub(super) body: RecvStream,
    pub(super) respond: SendResponse<Bytes>,
}

/// Why a call ends without success.
enum End {
    /// To be told to the caller as gRPC.
    Status(Status),
    /// To be told to the caller as HTTP.
    Http(StatusCode),
    /// Nobody is there to be told.
    Gone,
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<h2::Error> for End {
    fn from(_: h2::Error) -> Self {
        Self::Gone
    }
}

impl<C: Send + Sync + 'static> Call<C> {
    /// Runs the call to its end and tells the caller how it ended.
    pub(super) async fn run(self) {
        let began = Instant::now();
        let path = self.head.uri.path().to_owned();
        let mut answer = Answer::new(self.respond);
        let call = Process { routes: &self.routes, limits: &self.limits, head: &self.head, answer: &mut answer };
        let outcome = call.process(self.context, self.body).await;
        let (code, sent) = match &outcome {
            Ok(()) => (Code::Ok.name(), answer.finish(Ok(()))),
            Err(End::Status(status)) => (status.code().name(), answer.finish(Err(status))),
            Err(End::Http(status)) => ("not gRPC", answer.refuse(*status)),
            Err(End::Gone) => (Code::Cancelled.name(), Ok(())),
        };
        let elapsed = began.elapsed();
        tracing::debug!(path, code, ?elapsed, sent = sent.is_ok(), "call ended");
    }
}

/// The steps of a call, in order.
struct Process<'a, C> {
    routes: &'a Routes<C>,
    limits: &'a Limits,
    head: &'a Parts,
    answer: &'a mut Answer,
}

impl<C: Send + Sync + 'static> Process<'_, C> {
    async fn process(mut self, context: Arc<C>, body: RecvStream) -> Result<(), End> {
        let (mut clock, running) = match self.start(Arc::clone(&context), body).await {
            Ok(started) => started,
            Err(end) => {
                if let (End::Status(status), Some(unhandled)) = (&end, &self.routes.unhandled) {
                    unhandled(&context, self.head.uri.path(), status);
                }
                return Err(end);
            }
        };
        self.drive(&mut clock, running).await
    }

    /// Everything before the handler runs.
    async fn start(&mut self, context: Arc<C>, body: RecvStream) -> Result<(Clock, Running), End> {
        check_http(self.head)?;
        let mut clock = Clock::new(deadline(&self.head.headers, self.limits.call)?);
        check_encoding(&self.head.headers)?;
        let (service, method) = route(self.routes, self.head.uri.path())?;
        let message = self.receive(&mut clock, body).await?;
        let deadline = clock.deadline();
        let inbound = Inbound { message, context, deadline, reply_limit: self.limits.outbound_message };
        Ok((clock, service.start(method, inbound)?))
    }

    /// Reads the one message of a request.
    async fn receive(&mut self, clock: &mut Clock, body: RecvStream) -> Result<Message, End> {
        let mut inbox = Inbox::new(body, self.limits.inbound_message);
        let message = self.next_message(clock, &mut inbox).await?;
        // "Request cardinality violation (method requires exactly one request but client sent some other number of
        // requests): UNIMPLEMENTED" (gRPC, doc/statuscodes.md).
        let Some(message) = message else { return Err(Status::unimplemented("the request has no message").into()) };
        match self.next_message(clock, &mut inbox).await? {
            None => Ok(message),
            Some(_) => Err(Status::unimplemented("the request has more than one message").into()),
        }
    }

    async fn next_message(&mut self, clock: &mut Clock, inbox: &mut Inbox) -> Result<Option<Message>, End> {
        let next = std::future::poll_fn(|cx| inbox.poll_message(cx));
        match guard(next, clock, Some(self.limits.stall), |cx| self.answer.poll_cancelled(cx)).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(ReceiveError::Frame(error))) => Err(transfer::frame_status(error).into()),
            Ok(Err(ReceiveError::Http2(_))) => Err(End::Gone),
            Err(interrupt) => Err(interrupted(interrupt, "the request's message did not arrive in time")),
        }
    }

    /// Runs the handler and passes on its replies.
    async fn drive(&mut self, clock: &mut Clock, running: Running) -> Result<(), End> {
        let Running { handler, mut replies } = running;
        // A handler that panics fails its own call, not the others of the connection.
        let mut handler = AssertUnwindSafe(handler).catch_unwind();
        loop {
            let step = std::future::poll_fn(|cx| {
                if let Some(replies) = &mut replies
                    && let Poll::Ready(Some(reply)) = replies.as_mut().poll_next(cx)
                {
                    return Poll::Ready(Step::Reply(reply));
                }
                handler
                    .poll(cx)
                    .map(|ended| Step::End(ended.unwrap_or_else(|_| Err(Status::internal("the handler panicked")))))
            });
            let step = guard(step, clock, None, |cx| self.answer.poll_cancelled(cx)).await;
            match step.map_err(|interrupt| interrupted(interrupt, ""))? {
                Step::Reply(reply) => self.reply(clock, reply).await?,
                Step::End(outcome) => {
                    while let Some(Ok(reply)) = replies.as_ref().map(|replies| replies.try_recv()) {
                        self.reply(clock, reply).await?;
                    }
                    if let Some(reply) = outcome? {
                        self.reply(clock, reply).await?;
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn reply(&mut self, clock: &mut Clock, reply: Bytes) -> Result<(), End> {
        // A reset wakes the sending itself.
        let sending = self.answer.reply(reply);
        match guard(sending, clock, Some(self.limits.stall), |_| Poll::Pending).await {
            Ok(sent) => Ok(sent?),
            Err(interrupt) => Err(interrupted(interrupt, "the reply was not taken in time")),
        }
    }
}

/// What a handler does next.
enum Step {
    Reply(Bytes),
    End(Result<Option<Bytes>, Status>),
}

/// "If Content-Type does not begin with "application/grpc", gRPC servers SHOULD respond with HTTP status of 415".
fn check_http(head: &Parts) -> Result<(), End> {
    if head.method != Method::POST {
        return Err(End::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    if !wire::is_grpc(&head.headers) {
        return Err(End::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(())
}

/// "If a server receives a message compressed with an unsupported algorithm it MUST fail with UNIMPLEMENTED and list
/// what it supports in grpc-accept-encoding" (gRPC, doc/compression.md, in brief).
fn check_encoding(headers: &HeaderMap) -> Result<(), Status> {
    match wire::foreign_encoding(headers) {
        None => Ok(()),
        Some(encoding) => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            Err(Status::unimplemented(format!("messages encoded as {encoding} are not read here, only identity")))
        }
    }
}

/// "Path → "/" Service-Name "/" {method name}"" (gRPC over HTTP/2, Requests).
fn route<'a, C: 'static>(routes: &'a Routes<C>, path: &str) -> Result<(&'a dyn Service<C>, &'static str), Status> {
    let (service, method) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or((path, ""));
    let Some(found) = routes.services.get(service) else {
        return Err(Status::unimplemented(format!("no service {service} here")));
    };
    let known = found.methods().iter().find(|known| **known == method);
    known.map(|method| (&**found, *method)).ok_or_else(|| Status::unknown_method(service, method))
}

fn deadline(headers: &HeaderMap, longest: Option<Duration>) -> Result<Option<Instant>, Status> {
    let asked = match headers.get(wire::GRPC_TIMEOUT) {
        None => None,
        Some(value) => {
            Some(timeout::parse(value.as_bytes()).ok_or_else(|| Status::internal("grpc-timeout is malformed"))?)
        }
    };
    let wait = match (asked, longest) {
        (Some(asked), Some(longest)) => Some(asked.min(longest)),
        (asked, longest) => asked.or(longest),
    };
    // A deadline beyond the clock's range is none.
    Ok(wait.and_then(|wait| Instant::now().checked_add(wait)))
}

fn interrupted(interrupt: Interrupt, stalled: &str) -> End {
    match interrupt {
        Interrupt::Cancelled => End::Gone,
        Interrupt::Deadline => End::Status(Status::deadline_exceeded("the deadline passed")),
        Interrupt::Stalled => End::Status(Status::deadline_exceeded(stalled)),
    }
}
