//! The connections to one service: few, kept for the next call, used by one call at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use smol::Task;
use smol::lock::Semaphore;
use smol_hyper::rt::FuturesIo;

use super::connect;
use crate::call::Answer;
use crate::error::{CallError, Place};
use crate::within::within;
use crate::{BaseUrl, Limits, Trust};

/// Fields of an answer's head.
const MAX_FIELDS: usize = 64;

/// A request, which can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether sending it twice is as good as once.
    pub(crate) repeatable: bool,
}

/// The connections to one service.
#[derive(Debug)]
pub(crate) struct Pool {
    url: BaseUrl,
    idle: Mutex<Vec<(Connection, Instant)>>,
    slots: Semaphore,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes; ends with this connection.
    _driver: Task<()>,
}

/// What became of one try on one connection.
enum Tried {
    Answered(Answer),
    /// The service closed the connection before it can have seen the request.
    Unsent,
    Failed(CallError),
}

impl Pool {
    pub(crate) fn new(url: BaseUrl, limits: &Limits) -> Self {
        Self { url, idle: Mutex::default(), slots: Semaphore::new(limits.connections.max(1)) }
    }

    /// One request and its answer, whatever its status.
    pub(crate) async fn exchange(
        &self,
        request: &Outgoing,
        trust: &Trust,
        limits: &Limits,
        place: &Place,
    ) -> Result<Answer, CallError> {
        let _slot = self.slots.acquire().await;
        if let Some(kept) = self.kept(limits) {
            match self.attempt(kept, request, limits, place).await {
                Tried::Answered(answer) => return Ok(answer),
                Tried::Unsent => {}
                Tried::Failed(CallError::Unreachable { .. }) if request.repeatable => {}
                Tried::Failed(error) => return Err(error),
            }
            // A service that ended one has most likely ended all of them: it restarted.
            self.lock().clear();
        }
        let fresh = Connection::open(&self.url, trust, limits, place).await?;
        match self.attempt(fresh, request, limits, place).await {
            Tried::Answered(answer) => Ok(answer),
            Tried::Unsent => Err(CallError::unreachable(place, &"it closes the connection at once")),
            Tried::Failed(error) => Err(error),
        }
    }

    fn kept(&self, limits: &Limits) -> Option<Connection> {
        let mut idle = self.lock();
        idle.retain(|(connection, since)| !connection.sender.is_closed() && since.elapsed() < limits.idle);
        idle.pop().map(|(connection, _)| connection)
    }

    async fn attempt(&self, mut connection: Connection, request: &Outgoing, limits: &Limits, place: &Place) -> Tried {
        let silent = || CallError::unreachable(place, &format_args!("silent for {} s", limits.read.as_secs_f32()));
        match within(limits.read, connection.sender.ready()).await {
            Some(Ok(())) => {}
            _ => return Tried::Unsent,
        }
        let message = match self.message(request) {
            Ok(message) => message,
            Err(error) => return Tried::Failed(CallError::bad_call(place, &error)),
        };
        let response = match within(limits.read, connection.sender.try_send_request(message)).await {
            Some(Ok(response)) => response,
            Some(Err(mut error)) => {
                return match error.take_message() {
                    Some(_) => Tried::Unsent,
                    None => Tried::Failed(broken(place, &error.into_error())),
                };
            }
            None => return Tried::Failed(silent()),
        };
        let (head, body) = response.into_parts();
        let body = match collect(body, limits, place, silent).await {
            Ok(body) => body,
            Err(error) => return Tried::Failed(error),
        };
        self.lock().push((connection, Instant::now()));
        Tried::Answered(Answer::new(&Response::from_parts(head, ()), body))
    }

    fn message(&self, request: &Outgoing) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut message = Request::builder()
            .method(&request.method)
            .uri(format!("/{}", request.path))
            .header(http::header::HOST, self.url.authority())
            .body(Full::new(request.body.clone()))?;
        message.headers_mut().extend(request.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(message)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    async fn open(url: &BaseUrl, trust: &Trust, limits: &Limits, place: &Place) -> Result<Self, CallError> {
        let stream = connect(url, trust, limits, place).await?;
        let (sender, connection) = http1::Builder::new()
            .max_headers(MAX_FIELDS)
            .max_buf_size(limits.head.max(8192))
            .handshake(FuturesIo::new(stream))
            .await
            .map_err(|error| broken(place, &error))?;
        // What ends a connection is told to the call that uses it.
        let driver = smol::spawn(async move { drop(connection.await) });
        Ok(Self { sender, _driver: driver })
    }
}

async fn collect(
    mut body: Incoming,
    limits: &Limits,
    place: &Place,
    silent: impl Fn() -> CallError,
) -> Result<Bytes, CallError> {
    let too_large = || CallError::bad_answer(place, &format_args!("its body has more than {} bytes", limits.answer));
    let said = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if said > limits.answer {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(said.min(64 << 10));
    loop {
        let Some(frame) = within(limits.read, body.frame()).await.ok_or_else(&silent)? else { return Ok(bytes.into()) };
        let Ok(data) = frame.map_err(|error| broken(place, &error))?.into_data() else { continue };
        if data.len() > limits.answer - bytes.len() {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
}

/// An answer that is no HTTP is a lie; everything else is a connection that broke.
fn broken(place: &Place, error: &hyper::Error) -> CallError {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    if error.is_parse() { CallError::bad_answer(place, &why) } else { CallError::unreachable(place, &why) }
}
