//! One call of a service, and its answer.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Outgoing;
use crate::error::{CallError, Place, kept, shown};
use crate::path;

/// The version of a resource: an entity tag as it stands in a header, quotes included (RFC 9110, section 8.8.3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Etag(HeaderValue);

impl Etag {
    /// Its text, with its quotes.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The strong tag of these characters, given without quotes as change notification does; `None` if they cannot be one.
    pub fn unquoted(text: &str) -> Option<Self> {
        let plain = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        plain.then(|| HeaderValue::try_from(format!("\"{text}\"")).ok().map(Self))?
    }
}

/// When a write is to be done (RFC 9110, section 13).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
    /// In any case.
    #[default]
    None,
    /// If the resource is still this version.
    Match(Etag),
    /// If there is one.
    Present,
    /// If there is none.
    Absent,
}

/// Whether a write made something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It did (201).
    Created,
    /// It was there before.
    Replaced,
}

/// A call, for what [`Service`](crate::Service) has no method for.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// The media types that are written.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Call {
    /// A call without a body.
    pub fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// With text as its body.
    #[must_use]
    pub fn text(self, body: impl Into<Bytes>) -> Self {
        self.body(TEXT, body.into())
    }

    /// With a header of one's own.
    #[must_use]
    pub fn header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With a precondition.
    #[must_use]
    pub fn when(mut self, precondition: &Precondition) -> Self {
        const ANY: HeaderValue = HeaderValue::from_static("*");
        match precondition {
            Precondition::None => {}
            Precondition::Match(etag) => drop(self.headers.insert(IF_MATCH, etag.0.clone())),
            Precondition::Present => drop(self.headers.insert(IF_MATCH, ANY)),
            Precondition::Absent => drop(self.headers.insert(IF_NONE_MATCH, ANY)),
        }
        self
    }

    pub(crate) fn json<B: Serialize + ?Sized>(self, body: &B) -> Result<Self, serde_json::Error> {
        Ok(self.body(JSON, serde_json::to_vec(body)?.into()))
    }

    pub(crate) fn merge_patch<B: Serialize + ?Sized>(self, body: &B) -> Result<Self, serde_json::Error> {
        Ok(self.body(MERGE_PATCH, serde_json::to_vec(body)?.into()))
    }

    fn body(mut self, media_type: HeaderValue, body: Bytes) -> Self {
        self.headers.insert(CONTENT_TYPE, media_type);
        self.body = body;
        self
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn outgoing(self, place: &Place) -> Result<Outgoing, CallError> {
        path::check(&self.path).map_err(|why| CallError::bad_call(place, &why))?;
        // Create-only twice would take our own first write for somebody else's.
        let repeatable = self.method != Method::POST
            && !self.headers.contains_key(IF_MATCH)
            && !self.headers.contains_key(IF_NONE_MATCH);
        let Self { method, path, headers, body } = self;
        Ok(Outgoing { method, path, headers, body, repeatable })
    }
}

/// What a service answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The version of the resource, where it is said.
    pub etag: Option<Etag>,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    pub(crate) fn new(head: &Response<()>, body: Bytes) -> Self {
        let etag = head.headers().get(ETAG).filter(|value| value.to_str().is_ok_and(is_etag)).cloned().map(Etag);
        Self { status: head.status().as_u16(), etag, body }
    }

    /// Itself, where its status is a success.
    pub(crate) fn accepted(self, place: &Place) -> Result<Self, CallError> {
        let place = place.clone();
        match self.status {
            200..=299 => Ok(self),
            401 => Err(CallError::Unauthenticated(place)),
            403 => Err(CallError::Forbidden { place, text: shown(&self.body) }),
            404 => Err(CallError::NotFound(place)),
            409 => Err(CallError::Conflict { place, body: kept(&self.body) }),
            412 => Err(CallError::PreconditionFailed(place)),
            status => Err(CallError::Refused { place, status, text: shown(&self.body) }),
        }
    }

    pub(crate) fn written(&self) -> Written {
        if self.status == 201 { Written::Created } else { Written::Replaced }
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, place: &Place) -> Result<T, CallError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            CallError::bad_answer(place, &format_args!("its body is not the JSON that is due: {error}"))
        })
    }
}

fn is_etag(text: &str) -> bool {
    let opaque = text.strip_prefix("W/").unwrap_or(text);
    text.len() <= 256 && opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_is_quoted_and_short() {
        assert!(is_etag("\"a\"") && is_etag("W/\"a\"") && is_etag("\"\""));
        assert!(!is_etag("a") && !is_etag("\"") && !is_etag(&format!("\"{}\"", "a".repeat(300))));
        assert_eq!(Etag::unquoted("a-b").unwrap().as_str(), "\"a-b\"");
        assert!(Etag::unquoted("a\"b").is_none() && Etag::unquoted("a b").is_none());
    }

    #[test]
    fn what_could_hit_its_own_first_write_is_not_sent_twice() {
        let place = Place::new(latchkey_factory_plus::Uuid::NIL, &Method::PUT, &"x");
        let repeatable = |call: Call| call.outgoing(&place).unwrap().repeatable;
        assert!(repeatable(Call::new(Method::PUT, "v2/x")) && repeatable(Call::new(Method::GET, "v2/x")));
        assert!(!repeatable(Call::new(Method::POST, "v2/x")));
        assert!(!repeatable(Call::new(Method::PUT, "v2/x").when(&Precondition::Absent)));
        assert!(Call::new(Method::GET, "/v2").outgoing(&place).is_err());
    }
}
