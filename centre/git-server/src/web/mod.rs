//! The server on HTTP: what a request is about, who asks, and how the reply is sent.

mod feed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::Duration;

use latchkey_centre_service::{AccessLists, Rights};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus_server::http::{HeaderName, HeaderValue, Method as HttpMethod, StatusCode, header};
use latchkey_factory_plus_server::{Answer, Authenticated, Handler, Refusal, Request, Response, Terms};
use serde_json::Value;

use crate::backend::{AnswerHead, RequestHead};
use crate::git::GitLimits;
use crate::paths::{Method, PathError, Service, Step, Target};
use crate::rights::Caller;
use crate::server::{GitServer, Reply, ReplyError};

/// How long after its run a request may take, for what waits before and after.
const SLACK: Duration = Duration::from_mins(1);

/// The handler of requests, and the feed of changes. Clones are the same.
#[derive(Clone)]
pub struct Web(Arc<Inner>);

struct Inner {
    server: GitServer,
    lists: AccessLists,
    git: GitLimits,
    run: Duration,
    /// Whether the entries were read once: before that, what is not known may exist.
    ready: AtomicBool,
}

impl Web {
    /// `lists` says what callers may. `run` is how long git may take.
    pub fn new(server: GitServer, lists: AccessLists, git: GitLimits, run: Duration) -> Self {
        Self(Arc::new(Inner { server, lists, git, run, ready: AtomicBool::new(false) }))
    }

    /// All entries of "Git repository configuration", as they are now.
    pub fn all_entries<'a>(&self, all: impl IntoIterator<Item = (Uuid, &'a Value)>) {
        self.0.server.replace_entries(all);
        self.0.ready.store(true, Release);
    }

    /// One entry came, changed, or is gone.
    pub fn entry(&self, uuid: Uuid, entry: Option<&Value>) {
        self.0.server.change_entry(uuid, entry);
    }

    /// Whether the entries were read.
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Acquire)
    }
}

fn caller<'a>(who: &'a Authenticated, rights: &'a Rights) -> Caller<'a> {
    Caller { name: who.upn().as_str(), root: rights.is_root(), list: rights.list() }
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl Handler for Web {
    fn terms(&self, method: &HttpMethod, path: &str) -> Terms {
        let terms = Terms::authenticated();
        let Some(Ok(Target::Git { service, step: Step::Exchange, .. })) =
            read_method(method).map(|method| Target::read(method, path, None))
        else {
            return terms;
        };
        let most = match service {
            Service::UploadPack => self.0.git.negotiation.into(),
            Service::ReceivePack => self.0.git.most_pushed(),
        };
        terms.body_limit(most).time(self.0.run + SLACK)
    }

    async fn handle(&self, request: Request) -> Answer {
        let method = read_method(request.method()).ok_or_else(|| path_refusal(PathError::Method))?;
        let target = Target::read(method, request.path(), request.query()).map_err(path_refusal)?;
        let who = request.caller().known()?.clone();
        if !self.is_ready() {
            return Err(Refusal::unavailable("the entries of repositories were not read yet"));
        }
        let rights = self.0.lists.of(&who).await?;
        let head = head_of(&request);
        match self.0.server.reply(caller(&who, &rights), target, &head, request.into_body()).await {
            Ok(Reply::Done) => Ok(Response::empty(StatusCode::NO_CONTENT)),
            Ok(Reply::Json(value)) => Response::json(&value),
            Ok(Reply::Git(answer)) => {
                let AnswerHead { status, headers } = answer.head;
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                Ok(headers.into_iter().fold(Response::stream(status, answer.body), passed_on))
            }
            Err(error) => Err(refusal(&error)),
        }
    }
}

fn read_method(method: &HttpMethod) -> Option<Method> {
    match *method {
        HttpMethod::GET | HttpMethod::HEAD => Some(Method::Get),
        HttpMethod::POST => Some(Method::Post),
        HttpMethod::DELETE => Some(Method::Delete),
        _ => None,
    }
}

fn head_of(request: &Request) -> RequestHead {
    let text = |name: &HeaderName| request.header(name).map(str::to_owned);
    RequestHead {
        content_type: text(&header::CONTENT_TYPE),
        content_encoding: text(&header::CONTENT_ENCODING),
        content_length: request.header(&header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        git_protocol: text(&HeaderName::from_static("git-protocol")),
    }
}

/// The length of a streamed body is this server's to say.
fn passed_on(response: Response, (name, value): (&'static str, String)) -> Response {
    match HeaderValue::try_from(value) {
        Ok(value) if name != "content-length" => response.with(HeaderName::from_static(name), value),
        _ => response,
    }
}

fn path_refusal(error: PathError) -> Refusal {
    let status = match error {
        PathError::Unknown => StatusCode::NOT_FOUND,
        PathError::Method => StatusCode::METHOD_NOT_ALLOWED,
        PathError::Dumb => StatusCode::FORBIDDEN,
    };
    Refusal::new(status, error.to_string())
}

/// What is this machine's own business goes into the log alone.
fn refusal(error: &ReplyError) -> Refusal {
    match StatusCode::from_u16(error.status()) {
        Ok(StatusCode::SERVICE_UNAVAILABLE) => Refusal::unavailable(error.to_string()),
        Ok(status) if status.is_client_error() => Refusal::new(status, error.to_string()),
        _ => Refusal::internal(error.to_string()),
    }
}
