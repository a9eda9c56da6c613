//! Answers.

use serde::Serialize;
use serde_json::Value;

use crate::expand::NoList;
use crate::model::Conflict;
use crate::rights::Forbidden;

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
    pub fn empty(status: u16) -> Self {
        Self { status, body: Body::Empty }
    }

    /// 200 with JSON.
    pub fn json(value: &impl Serialize) -> Self {
        Self::json_with(200, value)
    }

    /// Another status with JSON.
    pub(crate) fn json_with(status: u16, value: &impl Serialize) -> Self {
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
}

impl From<Forbidden> for Answer {
    fn from(why: Forbidden) -> Self {
        Self::refused(403, why)
    }
}

impl From<Conflict> for Answer {
    fn from(why: Conflict) -> Self {
        Self::refused(409, why)
    }
}

impl From<NoList> for Answer {
    fn from(why: NoList) -> Self {
        let status = match why {
            NoList::NoPrincipal => 404,
            NoList::TooLong => 503,
        };
        Self::refused(status, why)
    }
}
