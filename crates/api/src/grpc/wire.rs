//! Header names and values of gRPC over HTTP/2.

use super::{
    percent,
    status::{Code, Status},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
pub(crate) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
pub(crate) const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(crate) const APPLICATION_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
pub(crate) const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Whether the content type says protobuf over gRPC: "Content-Type → `application/grpc` [(`+proto` / `+json` /
/// {custom})]", with parameters allowed.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/grpc") || essence.eq_ignore_ascii_case(b"application/grpc+proto")
}

/// Whether the peer's messages are encoded in a way this side does not read.
pub(crate) fn foreign_encoding(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(GRPC_ENCODING).filter(|encoding| *encoding != IDENTITY)
}

/// Adds the outcome of a call to trailers.
pub(crate) fn put_status(headers: &mut HeaderMap, outcome: Result<(), &Status>) {
    let code = outcome.map_or_else(Status::code, |()| Code::Ok);
    headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(code.number())));
    if let Err(status) = outcome
        && !status.message().is_empty()
    {
        headers.insert(GRPC_MESSAGE, percent::encode(status.message()));
    }
}

/// Reads the outcome of a call from trailers; `None` if there is none.
pub(crate) fn take_status(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let number = headers.get(GRPC_STATUS)?.to_str().ok().and_then(|number| number.parse().ok());
    let message = || headers.get(GRPC_MESSAGE).map_or_else(String::new, |value| percent::decode(value.as_bytes()));
    Some(match number.map(Code::from_number) {
        Some(Code::Ok) => Ok(()),
        Some(code) => Err(Status::new(code, message())),
        None => Err(Status::unknown("the peer's grpc-status is not a number")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_content_type(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_protobuf_over_grpc_is_grpc() {
        for good in ["application/grpc", "application/grpc+proto", "Application/gRPC; charset=utf-8"] {
            assert!(is_grpc(&with_content_type(good)), "{good}");
        }
        for bad in
            ["application/grpc+json", "application/grpc-web", "application/json", "", "text/plain;application/grpc"]
        {
            assert!(!is_grpc(&with_content_type(bad)), "{bad}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_status_survives_the_wire() {
        let status = Status::invalid_argument("key id „x“ is 100% wrong\n");
        let mut trailers = HeaderMap::new();
        put_status(&mut trailers, Err(&status));
        assert_eq!(take_status(&trailers), Some(Err(status)));
    }

    #[test]
    fn a_status_nobody_can_read_is_no_success() {
        for value in ["", "x", "-1", "99999999999999"] {
            let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static(value))]);
            assert_eq!(take_status(&trailers).unwrap().unwrap_err().code(), Code::Unknown);
        }
    }
}
