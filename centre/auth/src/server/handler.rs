//! Requests.

use std::time::Duration;

use latchkey_centre_service::backup;
use latchkey_factory_plus_server::http::{Method as HttpMethod, StatusCode};
use latchkey_factory_plus_server::{self as server, ContentType, Handler, Refusal, Terms};

use crate::api::{Ask, Method, Write};
use crate::keeper::Keeper;

/// The longest dump, in bytes: some 20 000 grants.
const LONGEST_DUMP: u64 = 4 << 20;
/// How long a dump may take to come.
const DUMP_TIME: Duration = Duration::from_mins(2);

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
        if backup::is_asked(method, path) {
            return backup::terms();
        }
        Terms::authenticated()
    }

    async fn handle(&self, mut request: server::Request) -> server::Answer {
        let caller = request.caller().known()?.upn().clone();
        if backup::is_asked(request.method(), request.path()) {
            return backup::answer(&request, self.0.is_root(&caller), self.0.store().copy_beside()).await;
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
        answer.into_response()
    }
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
