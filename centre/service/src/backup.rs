//! `POST /backup`, for the root principal: a service leaves a copy of this moment beside its file. The request names no path.

use std::fmt::Display;
use std::time::Duration;

use latchkey_factory_plus_server::http::{Method, StatusCode};
use latchkey_factory_plus_server::{Answer, Refusal, Request, Response, Terms};

/// How long copying may take.
const TIME: Duration = Duration::from_mins(10);

/// Whether a request asks for one.
pub fn is_asked(method: &Method, path: &str) -> bool {
    method == Method::POST && path == "/backup"
}

/// The terms of such a request.
pub fn terms() -> Terms {
    Terms::authenticated().body_limit(0).time(TIME)
}

/// Copies, and answers; `is_root` says whether the caller may have it done.
///
/// # Errors
/// 403, and 503 where the copy fails.
pub async fn answer<E: Display>(request: &Request, is_root: bool, copy: impl Future<Output = Result<(), E>>) -> Answer {
    if !is_root {
        return Err(Refusal::forbidden("Only the root principal has everything copied"));
    }
    copy.await.map_err(|error| Refusal::unavailable(error.to_string()))?;
    tracing::info!(request = request.id(), "Copied everything");
    Ok(Response::empty(StatusCode::NO_CONTENT))
}
