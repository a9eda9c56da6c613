//! What a request must look like before anything is made of it: one meaning for everybody on its way.

use crate::connection::pace::Pace;
use crate::message::Refusal;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, Request, Version};

/// The longest target.
const MAX_TARGET: usize = 8 * 1024;

/// Refuses what could mean two things.
///
/// # Errors
/// 400, 405, 414.
pub(crate) fn check<B>(request: &Request<B>, pace: &Pace) -> Result<(), Refusal> {
    let known = [Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::POST, Method::DELETE, Method::OPTIONS];
    if !known.contains(request.method()) {
        return Err(Refusal::method_not_allowed(format!("Methods here are {}", crate::cors::METHODS)));
    }
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > MAX_TARGET {
        return Err(Refusal::new(http::StatusCode::URI_TOO_LONG, format!("The URL is longer than {MAX_TARGET} bytes")));
    }
    let count = |name: HeaderName| request.headers().get_all(name).iter().count();
    let hosts = count(HOST);
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Err(Refusal::bad_request("There must be one header Host"));
    }
    if count(TRANSFER_ENCODING) > 0 {
        check_chunked(request.headers(), pace)?;
    }
    Ok(())
}

/// RFC 9112, section 6.1: a message with both lengths "ought to be handled as an error". hyper takes the one and leaves no trace of
/// the other, so what was read is looked at; where it was read along with the last request, nobody can look, and it is refused.
fn check_chunked(headers: &HeaderMap, pace: &Pace) -> Result<(), Refusal> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = values.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !chunked || values.next().is_some() {
        return Err(Refusal::bad_request("The one Transfer-Encoding here is chunked"));
    }
    if headers.contains_key(CONTENT_LENGTH) {
        return Err(both());
    }
    let (seen, length) = pace.with_head(|bytes| (has(bytes, "transfer-encoding"), has(bytes, "content-length")));
    if length {
        return Err(both());
    }
    if seen {
        Ok(())
    } else {
        Err(Refusal::bad_request("A request with Transfer-Encoding must not be sent before the last response has come"))
    }
}

fn both() -> Refusal {
    Refusal::bad_request("Content-Length and Transfer-Encoding exclude each other")
}

/// Whether a line of the head begins with this name.
fn has(bytes: &[u8], name: &str) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut head = lines.skip(1).take_while(|line| !line.is_empty());
    head.any(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn names_are_found_in_the_head_alone() {
        let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-LENGTH : 1\r\n\r\nTransfer-Encoding: chunked\r\n";
        assert!(has(bytes, "content-length") && !has(bytes, "transfer-encoding"));
        assert!(!has(b"content-length: 1\r\n", "content-length"), "the first line is no header");
        assert!(!has(b"", "host"));
    }
}
