//! From a request to a WebSocket: RFC 6455, section 4.2.

use crate::message::{Refusal, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use ring::digest;

/// What the key is hashed with (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Bytes of a key, decoded.
const KEY: usize = 16;

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Takes the connection out of a request, and the response that says so.
///
/// # Errors
/// 400, 405; 426 for what asks for no WebSocket.
pub(crate) fn upgrade(request: &mut Request<Incoming>) -> Result<(OnUpgrade, Response), Refusal> {
    if request.method() != Method::GET {
        return Err(Refusal::method_not_allowed("This is a WebSocket: use GET"));
    }
    let headers = request.headers();
    if request.version() != Version::HTTP_11 || !asks(headers) {
        let text = "This is a WebSocket: send Connection: Upgrade, Upgrade: websocket and Sec-WebSocket-Version: 13";
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, text));
    }
    let accept = accept(headers).ok_or_else(|| Refusal::bad_request("Sec-WebSocket-Key is not 16 bytes of base64"))?;
    let response = Response::empty(StatusCode::SWITCHING_PROTOCOLS)
        .with(CONNECTION, HeaderValue::from_static("Upgrade"))
        .with(UPGRADE, WEBSOCKET)
        .with(SEC_WEBSOCKET_ACCEPT, accept);
    Ok((hyper::upgrade::on(request), response))
}

fn asks(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "upgrade")
        && has_token(headers, &UPGRADE, "websocket")
        && headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let key = headers.get(SEC_WEBSOCKET_KEY)?.to_str().ok()?.trim();
    if key.len() > KEY * 2 || STANDARD.decode(key).ok()?.len() != KEY {
        return None;
    }
    let mut sha1 = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sha1.update(key.as_bytes());
    sha1.update(GUID.as_bytes());
    HeaderValue::try_from(STANDARD.encode(sha1.finish())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_is_answered_as_there() {
        let of =
            |key: &'static str| accept(&HeaderMap::from_iter([(SEC_WEBSOCKET_KEY, HeaderValue::from_static(key))]));
        assert_eq!(of("dGhlIHNhbXBsZSBub25jZQ==").unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!([of("dGhlIHNhbXBsZSBub25j"), of("!"), of("")], [None, None, None]);
    }
}
