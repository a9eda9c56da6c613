//! One request: its shape, its terms, its caller, its handler; and what every response has.

mod link;
mod shape;

pub(crate) use link::Link;

use crate::auth::gate::Denied;
use crate::auth::{Caller, gate};
use crate::cors;
use crate::handler::{Access, Handler, Terms};
use crate::message::{Content, OutBody, Refusal, Request, RequestBody, RequestParts, Response};
use crate::notify;
use crate::server::Shared;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use latchkey_factory_plus::Upn;
use smol::Timer;
use smol::future::{FutureExt, poll_once};
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The bodies of requests that this crate answers itself: none is needed.
const OWN_BODY: u64 = 1024;

/// What is answered: by this crate, or by the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Ping,
    Token,
    Notify,
    Service,
}

impl Route {
    fn of(path: &str, has_feed: bool) -> Self {
        match path {
            "/ping" => Self::Ping,
            "/token" => Self::Token,
            "/notify/v2" if has_feed => Self::Notify,
            _ => Self::Service,
        }
    }
}

/// What of a request the lines of the log and the headers of the response go by.
struct Facts {
    id: Arc<str>,
    method: Method,
    path: String,
    began: Instant,
    who: Option<Upn>,
    /// For `WWW-Authenticate`.
    reply: Option<HeaderValue>,
    /// The connection ends with this response.
    last: bool,
}

/// Answers one request of a connection.
pub(crate) async fn exchange<H: Handler>(
    shared: Arc<Shared<H>>,
    link: Arc<Link>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<OutBody>, Infallible> {
    link.pace.begin(shared.time, request.body().is_end_stream());
    let mut facts = Facts {
        id: shared.ids.next().into(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        began: Instant::now(),
        who: None,
        reply: None,
        last: request.headers().contains_key(TRANSFER_ENCODING),
    };
    // A panic leaves what a service shares as its locks leave it: those of this workspace take poisoned ones.
    let answer = AssertUnwindSafe(answer(&shared, &link, request, &mut facts)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| {
        shared.metrics.panicked();
        Err(Refusal::internal("the handler panicked"))
    });
    let response = answer.unwrap_or_else(|refusal| {
        log_refusal(&shared, &link, &facts, &refusal);
        Response::from(&refusal)
    });
    Ok(finish(&shared, &link, facts, response))
}

async fn answer<H: Handler>(
    shared: &Arc<Shared<H>>,
    link: &Arc<Link>,
    mut request: hyper::Request<Incoming>,
    facts: &mut Facts,
) -> Result<Response, Refusal> {
    if let Err(refusal) = shape::check(&request, &link.pace) {
        facts.last = true;
        return Err(refusal);
    }
    if let Some(response) = cors::preflight(request.method(), request.headers()) {
        return Ok(response);
    }
    let head_only = request.method() == Method::HEAD;
    let method = if head_only { Method::GET } else { request.method().clone() };
    let route = Route::of(request.uri().path(), shared.feed.is_some());
    let terms = match route {
        Route::Ping | Route::Token => Terms::authenticated().body_limit(OWN_BODY),
        // The first frame says who it is.
        Route::Notify => Terms::open().body_limit(0),
        Route::Service => shared.handler.terms(&method, request.uri().path()),
    };
    let limit = terms.body.unwrap_or(shared.body_limit);
    if let Some(length) = content_length(&request).filter(|length| *length > limit) {
        let text = format!("The body has {length} bytes; {limit} is the most for this request");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let (caller, until) = admit(shared, link, terms.access, &request, facts).await?;
    if route == Route::Notify {
        let upgrade = notify::upgrade(&mut request)?;
        link.keep_upgrade(upgrade.0, Arc::clone(&facts.id));
        return Ok(upgrade.1);
    }
    let time = terms.time.unwrap_or(shared.time);
    link.pace.allow(time);
    let (mut head, incoming) = request.into_parts();
    // Nobody needs it behind this place, so it cannot be logged there.
    head.headers.remove(AUTHORIZATION);
    let body = RequestBody::new(incoming, limit, shared.paces.stall, Arc::clone(&link.pace));
    match route {
        Route::Ping => ping(shared, &method),
        Route::Token => token(shared, &method, &caller, until),
        Route::Notify | Route::Service => {
            let (id, peer) = (Arc::clone(&facts.id), link.peer);
            let (uri, headers) = (head.uri, head.headers);
            let parts = RequestParts { method, uri, headers, caller, id, peer, head_only, body };
            within(time, pin!(shared.handler.handle(Request::new(parts)))).await?
        }
    }
}

/// The caller, as far as `access` asks for one; and until when its token is good.
async fn admit<H: Handler>(
    shared: &Arc<Shared<H>>,
    link: &Arc<Link>,
    access: Access,
    request: &hyper::Request<Incoming>,
    facts: &mut Facts,
) -> Result<(Caller, Option<Instant>), Refusal> {
    if access == Access::Open {
        return Ok((Caller::Anonymous, None));
    }
    let entering = shared.gate.enter(request.headers(), link.peer.ip());
    let entered = match within(shared.time, pin!(entering)).await? {
        Err(Denied::Nothing) if access == Access::Optional => return Ok((Caller::Anonymous, None)),
        entered => entered?,
    };
    let gate::Entered { who, reply, until } = entered;
    facts.who = Some(who.upn().clone());
    facts.reply = reply;
    link.admitted();
    Ok((Caller::Known(who), until))
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::TooOften(wait) => Self { detail: Some(denied.to_string()), ..Self::too_many(wait) },
            Denied::Unavailable(why) => Self {
                text: "It cannot be told at the moment who you are; try again later".to_owned(),
                ..Self::unavailable(format!("authentication: {why}"))
            },
            Denied::Nothing | Denied::Wrong(_) => Self { detail: Some(denied.to_string()), ..Self::unauthenticated() },
        }
    }
}

/// What `work` gives within `time`.
///
/// # Errors
/// 503.
async fn within<T>(time: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Result<T, Refusal> {
    // Most is done at once and needs no timer.
    if let Some(done) = poll_once(work.as_mut()).await {
        return Ok(done);
    }
    let done = async { Ok(work.await) };
    let late = async {
        Timer::after(time).await;
        let text = format!("The request was not done within {} s", time.as_secs());
        Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text))
    };
    done.or(late).await
}

fn ping<H: Handler>(shared: &Arc<Shared<H>>, method: &Method) -> Result<Response, Refusal> {
    if method != Method::GET {
        return Err(Refusal::method_not_allowed("Use GET"));
    }
    Response::json(&shared.about)
}

fn token<H: Handler>(
    shared: &Arc<Shared<H>>,
    method: &Method,
    caller: &Caller,
    until: Option<Instant>,
) -> Result<Response, Refusal> {
    if method != Method::POST {
        return Err(Refusal::method_not_allowed("Use POST"));
    }
    let issued = shared.gate.tokens.issue(caller.known()?.upn(), until);
    let issued = issued.ok_or_else(|| Refusal::internal("the system has no random numbers"))?;
    Ok(Response::json(&issued)?.with(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

fn content_length(request: &hyper::Request<Incoming>) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The response with what every response has; counted and, where something may have changed, logged.
fn finish<H: Handler>(
    shared: &Arc<Shared<H>>,
    link: &Arc<Link>,
    facts: Facts,
    response: Response,
) -> hyper::Response<OutBody> {
    let Response { status, mut headers, content } = response;
    let readable = facts.method == Method::GET || facts.method == Method::HEAD;
    shared.metrics.answered(status, facts.began.elapsed());
    if !readable && facts.method != Method::OPTIONS {
        log_change(link, &facts, status);
    }
    cors::mark(&mut headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::try_from(&*facts.id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(reply) = facts.reply {
        headers.insert(WWW_AUTHENTICATE, reply);
    }
    if let Some(cache) = shared.cache.as_ref().filter(|_| readable && status == StatusCode::OK) {
        headers.entry(CACHE_CONTROL).or_insert_with(|| cache.clone());
    }
    // Of a WebSocket there is no body; its header Connection says Upgrade.
    let unread = status != StatusCode::SWITCHING_PROTOCOLS && !link.pace.is_body_read();
    if unread || facts.last {
        link.leave_unread();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // A HEAD's body is not sent: nothing needs to be read for it.
    let content = match content {
        Content::Stream { .. } if facts.method == Method::HEAD => Content::Full(bytes::Bytes::new()),
        content => content,
    };
    let mut response = hyper::Response::new(OutBody::new(content, Arc::clone(&link.pace)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What somebody may have changed has its line.
fn log_change(link: &Link, facts: &Facts, status: StatusCode) {
    let who = facts.who.as_ref().map_or("-", Upn::as_str);
    tracing::info!(
        target: "audit", id = %facts.id, peer = %link.peer, who, method = %facts.method, path = %facts.path,
        status = status.as_u16(), "Request"
    );
}

/// Failures of this service have their line each; what anybody can cause comes at a bounded rate.
fn log_refusal<H: Handler>(shared: &Arc<Shared<H>>, link: &Link, facts: &Facts, refusal: &Refusal) {
    let (id, peer, method, path) = (&facts.id, link.peer, &facts.method, &facts.path);
    let who = facts.who.as_ref().map_or("-", Upn::as_str);
    let (status, why) = (refusal.status.as_u16(), refusal.detail.as_deref().unwrap_or(&refusal.text));
    if refusal.status.is_server_error() {
        tracing::error!(%id, %peer, who, %method, %path, status, why, "Request failed");
    } else if matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS)
        && refusal.detail.is_some()
        && let Some(left_out) = shared.noise.write_now()
    {
        tracing::warn!(target: "audit", %id, %peer, %method, %path, status, why, left_out, "Not authenticated");
    }
}
