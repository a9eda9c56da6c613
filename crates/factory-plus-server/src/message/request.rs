//! A request whose head was read, and whose caller is known as far as its terms ask for it.

use super::{ContentType, Refusal, RequestBody, path, read_json};
use crate::auth::Caller;
use http::{HeaderMap, HeaderName, Method, Uri};
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::sync::Arc;

/// A request.
#[derive(Debug)]
pub struct Request(RequestParts);

#[derive(Debug)]
pub(crate) struct RequestParts {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) caller: Caller,
    pub(crate) id: Arc<str>,
    pub(crate) peer: SocketAddr,
    pub(crate) head_only: bool,
    pub(crate) body: RequestBody,
}

impl Request {
    pub(crate) fn new(parts: RequestParts) -> Self {
        Self(parts)
    }

    /// The method. HEAD is GET here: the server leaves the body out.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Whether it was HEAD, so that the body of the response need not be made if its length is known otherwise.
    pub fn is_head(&self) -> bool {
        self.0.head_only
    }

    /// The path as it came: encoded, with its first slash.
    pub fn path(&self) -> &str {
        self.0.uri.path()
    }

    /// What stands behind the `?`, as it came.
    pub fn query(&self) -> Option<&str> {
        self.0.uri.query()
    }

    /// The segments of the path; see [`path::segments`].
    ///
    /// # Errors
    /// 400.
    pub fn segments(&self) -> Result<Vec<String>, Refusal> {
        path::segments(self.path())
    }

    /// The pairs of the query; see [`path::query_pairs`].
    ///
    /// # Errors
    /// 400.
    pub fn query_pairs(&self) -> Result<Vec<(String, String)>, Refusal> {
        path::query_pairs(self.query().unwrap_or_default())
    }

    /// The headers, without `Authorization`.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The one value of a header; `None` where there is none, more than one, or one that is no visible ASCII.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        let mut values = self.0.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        value.to_str().ok()
    }

    /// What the body is said to be.
    pub fn content_type(&self) -> ContentType {
        ContentType::of(&self.0.headers)
    }

    /// Whose request it is.
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Its name, for log lines: the peer has it in `X-Request-Id`.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Where it came from.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// The body.
    pub fn body(&mut self) -> &mut RequestBody {
        &mut self.0.body
    }

    /// The body alone.
    pub fn into_body(self) -> RequestBody {
        self.0.body
    }

    /// The body as JSON, whatever value it is.
    ///
    /// # Errors
    /// 415 when it is not said to be JSON, 413 and 408 as its reading goes, 400 and 422 as [`read_json`].
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        self.content_type().check_json()?;
        read_json(&self.0.body.read_all().await?)
    }
}
