//! The head of a CGI answer (RFC 3875, section 6).

use super::BackendError;

/// The longest head that is read, in bytes; git's have some hundred.
pub(super) const LONGEST: usize = 4096;
/// The most headers of one.
const MOST_HEADERS: usize = 16;
/// The headers that are passed on; no other is git's to say.
const PASSED_ON: [&str; 5] = ["content-type", "content-length", "cache-control", "expires", "pragma"];

/// Status and headers of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerHead {
    /// The status of HTTP.
    pub status: u16,
    /// The headers, by lower-case name: type, length and caching, nothing else.
    pub headers: Vec<(&'static str, String)>,
}

/// Reads the head at the beginning of `bytes`: it, and where the body begins. `None` while it is not all there.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(AnswerHead, usize)>, BackendError> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let (length, headers) = match httparse::parse_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(found)) => found,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(bad("its head has no end")),
        Err(error) => return Err(bad(&error.to_string())),
    };
    let mut head = AnswerHead { status: 200, headers: Vec::new() };
    for header in headers {
        let name = header.name.to_ascii_lowercase();
        let value = std::str::from_utf8(header.value).map_err(|_| bad("a header that is no text"))?;
        if name == "status" {
            head.status = status(value)?;
        } else if let Some(name) = PASSED_ON.into_iter().find(|passed| *passed == name) {
            head.headers.push((name, value.to_owned()));
        }
    }
    Ok(Some((head, length)))
}

/// `404 Not Found`
fn status(value: &str) -> Result<u16, BackendError> {
    let number = value.split(' ').next().and_then(|number| number.parse().ok());
    number.filter(|number| (200..600).contains(number)).ok_or_else(|| bad("a status that is none"))
}

fn bad(what: &str) -> BackendError {
    BackendError::Git(what.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_has_status_type_and_body() {
        let text = b"Status: 404 Not Found\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nLocation: x\r\n\r\nbody";
        let (head, length) = read(text).unwrap().unwrap();
        assert_eq!(head.status, 404);
        assert_eq!(head.headers, [("content-type", "text/plain".to_owned())]);
        assert_eq!(&text[length..], b"body");
        assert_eq!(read(b"Expires: x\r\n\r\n").unwrap().unwrap().0.status, 200);
    }

    #[test]
    fn half_a_head_is_waited_for_and_a_bad_one_refused() {
        assert_eq!(read(b"Content-Type: text").unwrap(), None);
        assert!(read(&[b'a'; LONGEST]).is_err());
        for bad in ["Status: 99\r\n\r\n", "Status: abc\r\n\r\n", "Status: 100\r\n\r\n", ": x\r\n\r\n", "a b: c\r\n\r\n"]
        {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read("a: b\r\n".repeat(17).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _read = read(&bytes);
        }
    }
}
