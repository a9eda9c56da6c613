//! Questions to a metadata server: HTTP/1.1 without TLS, one connection each, everything bounded in size and time.

use std::net::SocketAddr;
use std::time::Duration;

use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::TcpStream;

/// One question, from the connection to the last byte.
const TIME: Duration = Duration::from_secs(5);
/// The head of an answer.
const MAX_HEAD: usize = 8 * 1024;
const MAX_HEADERS: usize = 32;
/// There is nothing of what was asked for.
pub(super) const NO_CONTENT: u16 = 204;

/// A server at an address that every machine of a cloud has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    /// Where it is.
    pub(super) address: SocketAddr,
    /// What it is called in questions (`Host`).
    pub(super) name: &'static str,
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    method: &'static str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
    /// The most bytes of an answer.
    limit: usize,
}

impl<'a> Question<'a> {
    /// Reads at most so many bytes.
    pub(super) fn get(path: &'a str, headers: &'a [(&'a str, &'a str)], limit: usize) -> Self {
        Self { method: "GET", path, headers, body: &[], limit }
    }

    /// Sends something; the answer has at most so many bytes.
    pub(super) fn send(
        method: &'static str,
        path: &'a str,
        headers: &'a [(&'a str, &'a str)],
        body: &'a [u8],
        limit: usize,
    ) -> Self {
        Self { method, path, headers, body, limit }
    }

    fn bytes(&self, host: &str) -> Vec<u8> {
        let Self { method, path, headers, body, .. } = self;
        let length = if *method == "GET" { None } else { Some(("Content-Length", body.len().to_string())) };
        let line = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let headers = headers.iter().copied().chain(length.as_ref().map(|(name, value)| (*name, value.as_str())));
        let headers: String = headers.flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        [line.as_bytes(), headers.as_bytes(), b"\r\n", body].concat()
    }
}

/// What the server said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether it named itself as Google's servers do (`Metadata-Flavor: Google`).
    pub(super) of_google: bool,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody answers, or not to the end.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Not within the time.
    #[error("no answer within {} s", TIME.as_secs())]
    Late,
    /// What came is no HTTP, or its head is longer than is read.
    #[error("the answer is {0}")]
    Malformed(&'static str),
    /// An answer with more in it than is read.
    #[error("the answer (HTTP status {status}) is longer than it may be")]
    TooLong {
        /// What its head says.
        status: u16,
    },
}

impl Server {
    pub(super) async fn ask(&self, question: Question<'_>) -> Result<Answer, HttpError> {
        let late = async {
            smol::Timer::after(TIME).await;
            Err(HttpError::Late)
        };
        self.exchange(question).or(late).await
    }

    async fn exchange(&self, question: Question<'_>) -> Result<Answer, HttpError> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(&question.bytes(self.name)).await?;
        // Chunks have their sizes beside them; no answer is longer than this.
        let most = MAX_HEAD + 2 * question.limit;
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut piece).await?;
            bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
            if bytes.len() > most {
                return Err(too_long(&bytes));
            }
            // Who says how long an answer is may keep the connection open, whatever it was asked.
            if let Some(answer) = parse(&bytes, question.limit, read == 0)? {
                return Ok(answer);
            }
        }
    }
}

/// The body of an answer, as it would count; `None` of the beginning of one, as long as it has not `ended`.
///
/// # Errors
/// [`HttpError::Malformed`].
pub fn answer_body(bytes: &[u8], limit: usize, ended: bool) -> Result<Option<Vec<u8>>, HttpError> {
    parse(bytes, limit, ended).map(|answer| answer.map(|answer| answer.body))
}

const LONG_HEAD: HttpError = HttpError::Malformed("longer than it may be");

/// Of what came of an answer that is longer than it may be.
fn too_long(bytes: &[u8]) -> HttpError {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let whole = response.parse(bytes).is_ok_and(|parsed| parsed.is_complete());
    response.code.filter(|_| whole).map_or(LONG_HEAD, |status| HttpError::TooLong { status })
}

/// An answer that is whole; `None` of the beginning of one, as long as it has not `ended`.
fn parse(bytes: &[u8], limit: usize, ended: bool) -> Result<Option<Answer>, HttpError> {
    let cut = |what| if ended { Err(HttpError::Malformed(what)) } else { Ok(None) };
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head = bytes.get(..MAX_HEAD.min(bytes.len())).unwrap_or_default();
    let parsed = response.parse(head).map_err(|_| HttpError::Malformed("no HTTP"))?;
    let httparse::Status::Complete(length) = parsed else {
        return if head.len() == MAX_HEAD { Err(LONG_HEAD) } else { cut("cut in its head") };
    };
    let rest = bytes.get(length..).unwrap_or_default();
    let value = |name: &str| {
        let mut found = response.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        // Who says one thing twice may mean two.
        let first = found.next().map(|header| header.value.trim_ascii());
        if found.next().is_some() { Err(HttpError::Malformed("one header twice")) } else { Ok(first) }
    };
    let body = match (value("transfer-encoding")?, value("content-length")?) {
        // RFC 9112, section 6.3: this one has no body, and need not say so.
        _ if response.code == Some(NO_CONTENT) => Vec::new(),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => match unchunked(rest)? {
            Some(body) => body,
            None => return cut("cut in its chunks"),
        },
        (Some(_), _) => return Err(HttpError::Malformed("in a coding that nobody asked for")),
        (None, Some(length)) => {
            let digits = std::str::from_utf8(length).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length: Option<usize> = digits.and_then(|text| text.parse().ok());
            match length.ok_or(HttpError::Malformed("of a length that is no number"))? {
                length if length > limit => return Err(too_long(bytes)),
                length if length > rest.len() => return cut("not as long as it says"),
                length if length < rest.len() => return Err(HttpError::Malformed("longer than it says")),
                _ => rest.to_vec(),
            }
        }
        (None, None) if ended => rest.to_vec(),
        (None, None) => return Ok(None),
    };
    if body.len() > limit {
        return Err(too_long(bytes));
    }
    let of_google = value("metadata-flavor")? == Some(b"Google");
    Ok(Some(Answer { status: response.code.unwrap_or_default(), of_google, body }))
}

/// RFC 9112, section 7.1, with trailers passed over; `None` of what is not whole.
fn unchunked(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpError> {
    let malformed = || HttpError::Malformed("no chunks");
    let mut body = Vec::new();
    loop {
        if rest.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let httparse::Status::Complete((head, size)) = httparse::parse_chunk_size(rest).map_err(|_| malformed())?
        else {
            return Ok(None);
        };
        let behind = rest.get(head..).unwrap_or_default();
        if size == 0 {
            let whole = behind.starts_with(b"\r\n") || behind.windows(4).any(|window| window == b"\r\n\r\n");
            return Ok(whole.then_some(body));
        }
        let Some((chunk, next)) = usize::try_from(size).ok().and_then(|size| behind.split_at_checked(size)) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        match next {
            [b'\r', b'\n', next @ ..] => rest = next,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As it is when no more comes; nothing of what was cut before is an answer of another kind.
    fn body(answer: &[u8]) -> Result<Vec<u8>, HttpError> {
        parse(answer, 64, true).map(|answer| answer.unwrap().body)
    }

    #[test]
    fn an_answer_that_says_its_length_is_whole_before_the_connection_ends_and_not_before_that() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ] {
            for cut in 0..answer.len() {
                assert_eq!(parse(&answer[..cut], 64, false).unwrap(), None);
                assert!(parse(&answer[..cut], 64, true).is_err(), "{cut}");
            }
            assert_eq!(parse(answer, 64, false).unwrap().unwrap().body, b"abc");
        }
    }

    #[test]
    fn bodies_of_all_three_forms_are_read() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap(), b"abc");
        assert_eq!(body(b"HTTP/1.0 200 OK\r\n\r\nabc").unwrap(), b"abc");
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(chunked).unwrap(), b"abc");
        // Nothing follows this head, whether or not the connection ends there.
        let none = parse(b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 64, false).unwrap().unwrap();
        assert_eq!((none.status, none.body.len()), (204, 0));
        let google = parse(b"HTTP/1.1 404 Not Found\r\nMetadata-Flavor: Google\r\n\r\n", 64, true).unwrap().unwrap();
        assert_eq!((google.status, google.of_google, google.body.len()), (404, true, 0));
    }

    #[test]
    fn what_is_cut_longer_or_ambiguous_is_refused() {
        for answer in [
            &b""[..],
            b"HTTP/1.1 200",
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            assert!(body(answer).is_err(), "{}", String::from_utf8_lossy(answer));
        }
        let a = "a".repeat(65);
        for (says, head, behind) in [
            (200, "OK\r\n\r\n", ""),
            (404, "Not Found\r\nContent-Length: 65\r\n\r\n", ""),
            (200, "OK\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n", "\r\n0\r\n\r\n"),
        ] {
            let answer = body(format!("HTTP/1.1 {says} {head}{a}{behind}").as_bytes());
            assert!(matches!(answer, Err(HttpError::TooLong { status }) if status == says), "{answer:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert!(body(many.as_bytes()).is_err());
    }

    #[test]
    fn a_question_is_written_as_rfc_9112_says() {
        let get = Question::get("/x", &[("Metadata", "true")], 1).bytes("host");
        assert_eq!(get, b"GET /x HTTP/1.1\r\nHost: host\r\nConnection: close\r\nMetadata: true\r\n\r\n");
        let put = Question::send("PUT", "/x", &[], b"ab", 1).bytes("host");
        assert_eq!(put, b"PUT /x HTTP/1.1\r\nHost: host\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(head in "HTTP/1.1 200 OK\r\n(Transfer-Encoding: chunked\r\n)?\r\n", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for ended in [false, true] {
                let _ = parse(&bytes, 64, ended);
                let _ = parse(&[head.as_bytes(), &bytes].concat(), 64, ended);
            }
        }
    }
}
