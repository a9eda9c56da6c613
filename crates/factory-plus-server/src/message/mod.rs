//! Requests and responses, as services see them.

mod body;
mod json;
mod path;
mod refusal;
mod request;
mod response;

pub use body::{BodyError, RequestBody};
pub use json::{ContentType, read_json};
pub use path::{query_pairs, segments};
pub use refusal::Refusal;
pub use request::Request;
pub(crate) use request::RequestParts;
pub use response::Response;
pub(crate) use response::{Content, OutBody};

/// What a handler gives: a response, or the error that is the response.
pub type Answer = Result<Response, Refusal>;
