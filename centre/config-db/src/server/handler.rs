//! Requests.

use std::time::Duration;

use latchkey_centre_service::backup;
use latchkey_factory_plus_server::http::{HeaderValue, Method, StatusCode, header};
use latchkey_factory_plus_server::{self as server, ContentType, Handler, Refusal, Request, Response, Terms};

use super::Callers;
use crate::paths::Resource;
use crate::{Answer, ConfigDb, Json, LONGEST_JSON, Outcome, Preconditions, Query, Write};

/// The longest dump, in bytes.
const LONGEST_DUMP: u64 = 16 << 20;
/// How long a dump may take to come.
const DUMP_TIME: Duration = Duration::from_mins(2);

/// Answers requests.
#[derive(Debug)]
pub struct Requests {
    database: ConfigDb,
    callers: Callers,
}

impl Requests {
    pub(super) fn new(database: ConfigDb, callers: Callers) -> Self {
        Self { database, callers }
    }

    async fn read(&self, request: &Request, resource: Resource) -> server::Answer {
        let query = Query::parse(request.query().unwrap_or_default());
        let query = match (query, resource) {
            (Ok(query), _) => query,
            (Err(error), Resource::Search(..)) => return Err(Refusal::bad_request(error.to_string())),
            // Nothing else has a query; clients add some to get past caches.
            (Err(_), _) => Query::default(),
        };
        let Some(read) = resource.read(preconditions(request)?, query) else { return Err(not_allowed()) };
        let caller = self.callers.of(request.caller().known()?).await?;
        answer(&self.database.read(&caller, &read).map_err(refused)?)
    }

    async fn write(&self, mut request: Request, resource: Resource) -> server::Answer {
        let write = what(&mut request, resource).await?;
        let who = request.caller().known()?;
        let caller = match &write {
            // What they make has an owner.
            Write::CreateObject { .. } | Write::Load(_) => self.callers.owner(who).await?,
            _ => self.callers.of(who).await?,
        };
        let outcome = self.database.write(caller, write).await;
        let status = outcome.as_ref().map_or_else(crate::Refusal::status, Outcome::status);
        tracing::debug!(request = request.id(), method = %request.method(), path = request.path(), status, "Write");
        written(&outcome.map_err(refused)?)
    }
}

impl Handler for Requests {
    fn terms(&self, method: &Method, path: &str) -> Terms {
        if method == Method::POST && path == "/load" {
            return Terms::authenticated().body_limit(LONGEST_DUMP).time(DUMP_TIME);
        }
        if backup::is_asked(method, path) {
            return backup::terms();
        }
        if [Method::PUT, Method::PATCH].contains(method) && path.starts_with("/v2/app/") {
            // An edge tells of a thousand machines in one entry.
            return Terms::authenticated().body_limit(LONGEST_JSON as u64);
        }
        Terms::authenticated()
    }

    async fn handle(&self, request: Request) -> server::Answer {
        if backup::is_asked(request.method(), request.path()) {
            let caller = self.callers.of(request.caller().known()?).await?;
            return backup::answer(&request, caller.is_root(), self.database.copy_beside()).await;
        }
        let resource = Resource::parse(request.path()).map_err(|error| {
            Refusal::new(StatusCode::from_u16(error.status()).unwrap_or(StatusCode::NOT_FOUND), error.to_string())
        })?;
        if request.method() == Method::GET {
            self.read(&request, resource).await
        } else {
            // Boxed, so that reads need not carry its size.
            Box::pin(self.write(request, resource)).await
        }
    }
}

/// What a request would write.
async fn what(request: &mut Request, resource: Resource) -> Result<Write, Refusal> {
    let preconditions = preconditions(request)?;
    let said = request.content_type();
    let method = request.method().clone();
    let body = request.body().read_all().await?;
    let write = match method {
        Method::DELETE => resource.delete(preconditions),
        Method::PUT if body.is_empty() => resource.put(None, preconditions),
        Method::PUT if said == ContentType::Json => resource.put(Some(json(&body)?), preconditions),
        Method::PATCH if said == ContentType::MergePatch => resource.patch(json(&body)?, preconditions),
        Method::POST if said == ContentType::Json => {
            resource.post(&body).transpose().map_err(Refusal::unprocessable)?
        }
        Method::PATCH => return Err(unsupported("a patch is application/merge-patch+json (RFC 7396)")),
        Method::PUT | Method::POST => {
            return Err(unsupported("the body must be JSON: send Content-Type: application/json"));
        }
        _ => None,
    };
    write.ok_or_else(not_allowed)
}

fn json(body: &[u8]) -> Result<Json, Refusal> {
    Json::parse(body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn unsupported(what: &str) -> Refusal {
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
}

fn not_allowed() -> Refusal {
    Refusal::method_not_allowed("This cannot be done to what is at this path")
}

fn preconditions(request: &Request) -> Result<Preconditions, Refusal> {
    let (matches, none) = (request.header(&header::IF_MATCH), request.header(&header::IF_NONE_MATCH));
    Preconditions::parse(matches, none).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn answer(answer: &Answer) -> server::Answer {
    let status = StatusCode::from_u16(answer.status()).map_err(|error| Refusal::internal(error.to_string()))?;
    let response = body(status, answer.body().as_ref());
    let Some(etag) = answer.etag() else { return Ok(response) };
    let etag = HeaderValue::try_from(format!("\"{etag}\"")).map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(response.with(header::ETAG, etag))
}

fn written(outcome: &Outcome) -> server::Answer {
    let status = StatusCode::from_u16(outcome.status()).map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(body(status, outcome.body()))
}

fn body(status: StatusCode, json: Option<&Json>) -> Response {
    match json {
        Some(json) => Response::bytes(status, "application/json", json.text().to_owned()),
        None => Response::empty(status),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it ends errors of calls")]
fn refused(refusal: crate::Refusal) -> Refusal {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Refusal::new(status, refusal.body())
}
