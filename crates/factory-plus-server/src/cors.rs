//! Cross-origin requests, as the contract has them: from anywhere. There are no cookies here, so a foreign page has no more
//! rights than whatever it was given a token for.

use crate::message::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// What is served at all; anything else is 405.
pub(crate) const METHODS: &str = "GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS";

/// Longest list of headers that a preflight may ask for, bytes.
const MAX_ASKED: usize = 1024;

/// What clients of the contract send, where a preflight asks for nothing.
const HEADERS: HeaderValue = HeaderValue::from_static("Authorization, Content-Type, If-Match, If-None-Match");

/// The answer to a preflight request, which needs no authentication; `None` if it is none.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    let asked = headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if method != Method::OPTIONS || !asked {
        return None;
    }
    let list = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|list| is_list(list)).cloned().unwrap_or(HEADERS);
    let response = Response::empty(StatusCode::NO_CONTENT)
        .with(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS))
        .with(ACCESS_CONTROL_ALLOW_HEADERS, list)
        .with(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"))
        .with(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    Some(response)
}

/// Names of headers and commas, and not too long.
fn is_list(list: &HeaderValue) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_, ".contains(byte);
    !list.is_empty() && list.len() <= MAX_ASKED && list.as_bytes().iter().all(known)
}

/// What every response has.
pub(crate) fn mark(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag"));
}
