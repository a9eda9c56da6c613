//! Responses, and how their bodies leave.

use super::Refusal;
use crate::connection::pace::Pace;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use smol::io::AsyncRead;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Of a stream, how much is read at a time.
const PIECE: usize = 64 * 1024;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What an unauthenticated peer is asked for. `Negotiate` is not offered: browsers would ask for a password of their own accord.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Factory+\"");

/// A response.
#[derive(Debug)]
pub struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

/// What follows the headers.
pub(crate) enum Content {
    Full(Bytes),
    Stream { reader: Pin<Box<dyn AsyncRead + Send>>, buffer: Vec<u8> },
}

impl Response {
    /// No body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), content: Content::Full(Bytes::new()) }
    }

    /// text/plain; a line's end is added where there is none.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Self::full(status, TEXT, text.into())
    }

    /// 200 with a JSON body.
    ///
    /// # Errors
    /// 500 when the value is none of JSON: a map whose keys are no strings.
    pub fn json(value: &impl Serialize) -> Result<Self, Refusal> {
        let text = serde_json::to_vec(value).map_err(|error| Refusal::internal(error.to_string()))?;
        Ok(Self::full(StatusCode::OK, JSON, text.into()))
    }

    /// A body of this content type.
    pub fn bytes(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::full(status, HeaderValue::from_static(content_type), body.into())
    }

    /// A body that is read while it is sent, no faster than the peer takes it: a program's standard output, say. Its content type
    /// is for the caller to set. An error cuts the connection, so that the peer sees that the body is not whole.
    pub fn stream(status: StatusCode, reader: impl AsyncRead + Send + 'static) -> Self {
        let content = Content::Stream { reader: Box::pin(reader), buffer: Vec::new() };
        Self { content, ..Self::empty(status) }
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The same with a header, in the place of others of that name.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    fn full(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Self {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        Self { status, headers, content: Content::Full(body) }
    }
}

impl From<&Refusal> for Response {
    fn from(refusal: &Refusal) -> Self {
        let mut response = match refusal.text.as_str() {
            "" => Self::empty(refusal.status),
            text => Self::text(refusal.status, text),
        };
        if refusal.status == StatusCode::UNAUTHORIZED {
            response = response.with(WWW_AUTHENTICATE, CHALLENGE);
        }
        if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
            // RFC 9110, section 15.5.6: it must be there.
            response.headers.entry(ALLOW).or_insert(HeaderValue::from_static(crate::cors::METHODS));
        }
        if let Some(wait) = refusal.retry_after {
            response = response.with(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        response
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Stream { .. } => f.write_str("Stream"),
        }
    }
}

/// A body on its way; when it is dropped, the request is over.
#[derive(Debug)]
pub(crate) struct OutBody {
    content: Content,
    pace: Arc<Pace>,
}

impl OutBody {
    pub(crate) fn new(content: Content, pace: Arc<Pace>) -> Self {
        Self { content, pace }
    }
}

impl Drop for OutBody {
    fn drop(&mut self) {
        self.pace.answered();
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.content {
            Content::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Content::Stream { reader, buffer } => {
                buffer.resize(PIECE, 0);
                let count = ready!(reader.as_mut().poll_read(context, buffer))?;
                let piece = buffer.get(..count).filter(|piece| !piece.is_empty());
                Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream { .. } => SizeHint::default(),
        }
    }
}
