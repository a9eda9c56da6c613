//! Requests.

use std::time::Duration;

use latchkey_http_server::http::{Method as HttpMethod, StatusCode};
use latchkey_http_server::{self as server, Authenticated, ContentType, Handler, Refusal, Response, Terms};

use crate::Upn;
use crate::api::{Answer, Ask, Body, Method, Write};
use crate::keeper::Keeper;

/// The longest dump, in bytes: some 20 000 grants.
const LONGEST_DUMP: u64 = 4 << 20;
/// How long a dump may take to come.
const DUMP_TIME: Duration = Duration::from_mins(2);
/// How long a copy may take.
const BACKUP_TIME: Duration = Duration::from_mins(10);

/// Answers requests.
#[derive(Debug)]
pub struct Requests(Keeper);

impl Requests {
    pub(crate) fn of(keeper: Keeper) -> Self {
        Self(keeper)
    }
}

impl Handler for Requests {
    fn terms(&self, method: &HttpMethod, path: &str) -> Terms {
        if method == HttpMethod::POST && path == "/load" {
            return Terms::authenticated().body_limit(LONGEST_DUMP).time(DUMP_TIME);
        }
        if is_backup(method, path) {
            return Terms::authenticated().body_limit(0).time(BACKUP_TIME);
        }
        Terms::authenticated()
    }

    async fn handle(&self, mut request: server::Request) -> server::Answer {
        let caller = caller(request.caller().known()?)?;
        if is_backup(request.method(), request.path()) {
            if !self.0.is_root(&caller) {
                return Err(Refusal::forbidden("Only the root principal has everything copied"));
            }
            self.0.store().copy_beside().await.map_err(|error| Refusal::unavailable(error.to_string()))?;
            tracing::info!(request = request.id(), "Copied everything");
            return Ok(Response::empty(StatusCode::NO_CONTENT));
        }
        let method = match *request.method() {
            HttpMethod::GET => Method::Get,
            HttpMethod::PUT => Method::Put,
            HttpMethod::POST => Method::Post,
            HttpMethod::DELETE => Method::Delete,
            _ => return Err(Refusal::method_not_allowed("This service takes GET, PUT, POST and DELETE")),
        };
        let said = request.content_type();
        let body = request.body().read_all().await?;
        if !body.is_empty() && said != ContentType::Json {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body must be JSON: send Content-Type: application/json",
            ));
        }
        let answer = match Ask::read(method, request.path(), &body) {
            Ok(asked) => {
                let written = said_of(&asked);
                let answer = self.0.ask(caller.clone(), asked).await;
                if let Some(written) = written {
                    tracing::info!(request = request.id(), %caller, written, status = answer.status, "Write");
                }
                answer
            }
            Err(refused) => refused,
        };
        response(answer)
    }
}

/// `POST /backup`, for the root principal: leaves a copy of this moment beside the file. The request names no path.
fn is_backup(method: &HttpMethod, path: &str) -> bool {
    method == HttpMethod::POST && path == "/backup"
}

/// The caller's name. Who is called in a way that no principal here can be, is nobody.
pub(super) fn caller(proven: &Authenticated) -> Result<Upn, Refusal> {
    proven
        .principal()
        .as_str()
        .parse()
        .map_err(|why| Refusal::forbidden(format!("No principal here is called so: {why}")))
}

/// What is written, for the log: every change of who may what has a line.
fn said_of(asked: &Ask) -> Option<String> {
    let Ask::Write(write) = asked else { return None };
    Some(match write {
        Write::Name(principal, name) => format!("{principal} is {name}"),
        Write::Unname(principal) => format!("{principal} has no name"),
        Write::Grant(grant) => format!("grant {grant:?}"),
        Write::Replace(uuid, grant) => format!("{uuid} is {grant:?}"),
        Write::Revoke(uuid) => format!("end {uuid}"),
        Write::Load(_) => "a dump".into(),
    })
}

fn response(answer: Answer) -> server::Answer {
    let status = StatusCode::from_u16(answer.status).map_err(|error| Refusal::internal(error.to_string()))?;
    match answer.body {
        Body::Empty => Ok(Response::empty(status)),
        Body::Json(value) => Ok(Response::json(&value)?.status(status)),
        Body::Text(why) => Err(Refusal::new(status, why)),
    }
}
