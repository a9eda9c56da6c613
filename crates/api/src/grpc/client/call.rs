//! One call, from its request to its status.

use super::{failure, http_code};
use crate::grpc::{
    frame::{self, TooLargeToSend},
    guard::{Clock, Interrupt, guard},
    limits::Limits,
    status::Status,
    timeout,
    transfer::{self, Inbox, ReceiveError},
    wire,
};
use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderValue, Method, Request, Response, header};
use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("grpc-rust-latchkey/", env!("CARGO_PKG_VERSION")));

/// Sends the request and waits for the answer's headers.
pub(super) async fn start<Req: prost::Message, Res: prost::Message + Default>(
    requests: SendRequest<Bytes>,
    limits: &Limits,
    path: &'static str,
    request: &Req,
    within: Option<Duration>,
    mut clock: Clock,
) -> Result<Streaming<Res>, Status> {
    let message = frame::encode(request, limits.outbound_message).map_err(|TooLargeToSend { length, limit }| {
        Status::resource_exhausted(format!("a request of {length} bytes exceeds the limit of {limit}"))
    })?;
    let ready = guard(requests.ready(), &mut clock, None, |_| Poll::Pending).await;
    let mut requests = flatten(ready)?;
    let (response, stream) =
        requests.send_request(head(path, within)?, false).map_err(|error| failure::status(&error))?;
    let mut sending = Sending(Some((stream, message)));
    let response = guard(answered(&mut sending, response), &mut clock, None, |_| Poll::Pending).await;
    Streaming::new(flatten(response)?, sending, limits, clock)
}

fn head(path: &'static str, within: Option<Duration>) -> Result<Request<()>, Status> {
    let mut request = Request::builder()
        .method(Method::POST)
        .header(header::CONTENT_TYPE, wire::APPLICATION_GRPC)
        .header(header::TE, HeaderValue::from_static("trailers"))
        .header(header::USER_AGENT, USER_AGENT)
        .header(wire::GRPC_ACCEPT_ENCODING, wire::IDENTITY);
    if let Some(within) = within {
        request = request.header(wire::GRPC_TIMEOUT, timeout::format(within));
    }
    let uri = http::Uri::builder().scheme("http").authority("latchkey").path_and_query(path);
    uri.build()
        .and_then(|uri| request.uri(uri).body(()))
        .map_err(|error| Status::internal(format!("{path} is no path of a method: {error}")))
}

fn flatten<T>(step: Result<Result<T, h2::Error>, Interrupt>) -> Result<T, Status> {
    step.map_err(interrupted)?.map_err(|error| failure::status(&error))
}

fn interrupted(interrupt: Interrupt) -> Status {
    match interrupt {
        Interrupt::Deadline => Status::deadline_exceeded("the deadline passed before the peer was done"),
        Interrupt::Cancelled | Interrupt::Stalled => Status::cancelled("the call was given up"),
    }
}

/// The part of the request that is not sent yet.
#[derive(Debug)]
struct Sending(Option<(SendStream<Bytes>, Bytes)>);

impl Sending {
    /// Sends what can be sent. Errors are left to the receiving half: a peer may answer, and stop reading with
    /// `RST_STREAM(NO_ERROR)`, before it has the whole request (RFC 9113, section 8.1).
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some((stream, message)) = &mut self.0
            && transfer::poll_send(stream, cx, message, true).is_ready()
        {
            self.0 = None;
        }
    }
}

/// Waits for the answer's headers while the request is sent.
async fn answered(sending: &mut Sending, mut response: ResponseFuture) -> Result<Response<RecvStream>, h2::Error> {
    std::future::poll_fn(|cx| {
        sending.poll(cx);
        Pin::new(&mut response).poll(cx)
    })
    .await
}

/// The replies of a call. Dropping it cancels the call.
pub struct Streaming<M> {
    inbox: Inbox,
    sending: Sending,
    clock: Clock,
    /// How the call ended, once it has.
    outcome: Option<Result<(), Status>>,
    message: PhantomData<fn() -> M>,
}

impl<M> fmt::Debug for Streaming<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl<M: prost::Message + Default> Streaming<M> {
    /// Judges the answer's headers.
    fn new(response: Response<RecvStream>, sending: Sending, limits: &Limits, clock: Clock) -> Result<Self, Status> {
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            return Err(Status::new(http_code(head.status), format!("the peer answered HTTP {}", head.status)));
        }
        if !wire::is_grpc(&head.headers) {
            return Err(Status::unknown("the peer's answer is not gRPC"));
        }
        // Headers that end the stream are "Trailers-Only": they carry the status.
        let outcome = if body.is_end_stream() { Some(wire::take_status(&head.headers)) } else { None };
        let outcome = outcome.map(|status| status.unwrap_or_else(|| Err(no_status())));
        if let Some(Err(status)) = outcome {
            return Err(status);
        }
        if wire::foreign_encoding(&head.headers).is_some() {
            return Err(Status::internal("the peer encodes its messages, though only identity was offered"));
        }
        let inbox = Inbox::new(body, limits.inbound_message);
        Ok(Self { inbox, sending, clock, outcome, message: PhantomData })
    }

    /// The next reply, or `None` once the peer has ended the call with success.
    ///
    /// # Errors
    /// As [`super::Channel::unary`]; after an error, the same again.
    pub async fn message(&mut self) -> Result<Option<M>, Status> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone().map(|()| None);
        }
        let next = self.next().await;
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.end(Ok(())),
            Err(status) => self.end(Err(status.clone())),
        }
        next
    }

    fn end(&mut self, outcome: Result<(), Status>) {
        self.sending.0 = None;
        self.outcome = Some(outcome);
    }

    async fn next(&mut self) -> Result<Option<M>, Status> {
        let Self { inbox, sending, clock, .. } = self;
        let next = std::future::poll_fn(|cx| {
            sending.poll(cx);
            inbox.poll_message(cx)
        });
        match guard(next, clock, None, |_| Poll::Pending).await.map_err(interrupted)? {
            Ok(Some(message)) => M::decode(message.as_slice())
                .map(Some)
                .map_err(|error| Status::internal(format!("the reply does not decode: {error}"))),
            Ok(None) => self.trailers().await.map(|()| None),
            Err(ReceiveError::Frame(error)) => Err(transfer::frame_status(error)),
            Err(ReceiveError::Http2(error)) => Err(failure::status(&error)),
        }
    }

    async fn trailers(&mut self) -> Result<(), Status> {
        let Self { inbox, clock, .. } = self;
        let trailers = std::future::poll_fn(|cx| inbox.poll_trailers(cx));
        let trailers = flatten(guard(trailers, clock, None, |_| Poll::Pending).await)?;
        trailers.as_ref().and_then(wire::take_status).unwrap_or_else(|| Err(no_status()))
    }
}

fn no_status() -> Status {
    Status::unknown("the peer ended the call without a status")
}
