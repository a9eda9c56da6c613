//! Errors as answers: a status, and a text that says what is wrong.

use http::StatusCode;
use std::time::Duration;

/// An error that is answered, as text/plain. What belongs into the log alone is kept apart from what the peer is told.
#[derive(Debug, thiserror::Error)]
#[error("{} {}", status.as_u16(), detail.as_deref().unwrap_or(text))]
pub struct Refusal {
    pub(crate) status: StatusCode,
    /// What the peer is told. Empty: nothing.
    pub(crate) text: String,
    /// What the log is told beside it.
    pub(crate) detail: Option<String>,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// An error of this status; the peer is told `text`.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), detail: None, retry_after: None }
    }

    /// 400: what is wrong with the request.
    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 401, as for somebody who was not authenticated: the peer is not told why.
    pub fn unauthenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "")
    }

    /// 403: what the caller may not do.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 404: what is not there.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 405.
    pub fn method_not_allowed(text: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, text)
    }

    /// 409: what stands in the way.
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 422: what is wrong with the content of a well-formed body.
    pub fn unprocessable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    }

    /// 503: what this service needs does not work. `detail` is for the log.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let text = "Something that this service needs does not answer at the moment; try again later";
        Self { detail: Some(detail.into()), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text) }
    }

    /// 500: this service's own fault. `detail` is for the log.
    pub fn internal(detail: impl Into<String>) -> Self {
        let text = "This service failed; its log says why, by the id in the header X-Request-Id";
        Self { detail: Some(detail.into()), ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, text) }
    }

    /// 429: how long to wait.
    pub(crate) fn too_many(wait: Duration) -> Self {
        Self::too_often("Too many failed attempts to authenticate", wait)
    }

    /// 429: what was done too often, and how long to wait.
    pub fn too_often(what: &str, wait: Duration) -> Self {
        // Rounded up: whoever comes back then may try.
        let wait = Duration::from_secs(wait.as_secs() + 1);
        let text = format!("{what}; try again in {} s", wait.as_secs());
        Self { retry_after: Some(wait), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }

    /// The status that is answered.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}
