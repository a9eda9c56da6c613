//! What a service answers, decided before it is HTTP.

use latchkey_factory_plus_server::http::StatusCode;
use latchkey_factory_plus_server::{self as server, Refusal, Response};
use serde::Serialize;
use serde_json::Value;

/// What a caller is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// What stands below it.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// None.
    Empty,
    /// JSON.
    Json(Value),
    /// A sentence that says why not.
    Text(String),
}

impl Answer {
    /// A status alone.
    pub const fn empty(status: u16) -> Self {
        Self { status, body: Body::Empty }
    }

    /// 200 with JSON.
    pub fn json(value: &impl Serialize) -> Self {
        Self::json_with(200, value)
    }

    /// Another status with JSON.
    pub fn json_with(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self { status, body: Body::Json(value) },
            Err(error) => Self::refused(500, error),
        }
    }

    /// A status, and why.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub fn refused(status: u16, why: impl ToString) -> Self {
        Self { status, body: Body::Text(why.to_string()) }
    }

    /// The same as the server sends it.
    ///
    /// # Errors
    /// A refusal is one.
    pub fn into_response(self) -> server::Answer {
        let status = StatusCode::from_u16(self.status).map_err(|error| Refusal::internal(error.to_string()))?;
        match self.body {
            Body::Empty => Ok(Response::empty(status)),
            Body::Json(value) => Ok(Response::json(&value)?.status(status)),
            Body::Text(why) => Err(Refusal::new(status, why)),
        }
    }
}
