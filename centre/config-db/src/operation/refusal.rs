//! Why something was not done.

use latchkey_factory_plus::Uuid;

use crate::access::Need;

/// Why something was not done; its text is the body of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller lacks a permission.
    #[error("this needs the permission {} for {}", .0.permission, .0.target)]
    Forbidden(Need),
    /// There is no such application, object, class or entry.
    #[error("there is no {what} {uuid}")]
    Missing {
        /// What was looked for.
        what: &'static str,
        /// By its UUID.
        uuid: Uuid,
    },
    /// What the database itself needs is never deleted.
    #[error("{0} cannot be deleted: the database itself needs it")]
    Immutable(Uuid),
    /// It contradicts what is there.
    #[error("{0}")]
    Conflict(String),
    /// It is needed by others, which the body lists.
    #[error("other objects depend on it")]
    InUse(Vec<Uuid>),
    /// A precondition does not hold.
    #[error("the entry is not the one that the request is for")]
    Precondition,
    /// The value is not one that may be there.
    #[error("{0}")]
    Invalid(String),
    /// The caller has no UUID that could be an owner.
    #[error("the caller has no principal UUID, and so cannot own an object")]
    NoPrincipal,
    /// A limit of the whole database.
    #[error("{0}")]
    Full(String),
    /// What is written could not be kept; later writes may succeed.
    #[error("{0}")]
    Unavailable(String),
}

impl Refusal {
    /// The status of HTTP.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Forbidden(_) => 403,
            Self::Missing { .. } => 404,
            Self::Immutable(_) => 405,
            Self::Conflict(_) | Self::InUse(_) => 409,
            Self::Precondition => 412,
            Self::Invalid(_) => 422,
            Self::NoPrincipal | Self::Unavailable(_) => 503,
            Self::Full(_) => 507,
        }
    }

    /// The body: a list of UUIDs as JSON, or a text for people.
    pub fn body(&self) -> String {
        match self {
            Self::InUse(objects) => serde_json::json!(objects).to_string(),
            other => other.to_string(),
        }
    }

    /// Whether the body is JSON.
    pub const fn is_json(&self) -> bool {
        matches!(self, Self::InUse(_))
    }
}
