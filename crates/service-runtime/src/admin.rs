//! `/metrics` and `/healthz` over HTTP/1.1 on loopback, by hand: two pages need no web server.
//!
//! One request per connection, GET or HEAD, no body, bounded in size, time and number. No authentication: whoever can
//! open a loopback connection may read counters, and counters name nobody. Other machines' monitoring comes by [`crate::guarded`]. A
//! service that keeps something answers `POST /backup` too: the copy goes where its user and root alone read it, and the answer says no
//! more than that it is there.

use crate::process;
use smol::future::FutureExt;
use smol::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Longest request line and headers, bytes.
const MAX_REQUEST: usize = 8 * 1024;

/// Bytes that are read at once.
const CHUNK: usize = 1024;

/// From the connection to the end of the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// Connections at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8;

/// A copy that is being made; an error says why it is not.
pub type Copying<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// What a service tells its operator.
pub trait Admin: Send + Sync + 'static {
    /// The metrics page, Prometheus text format 0.0.4; what the kernel says of the process is added to it.
    fn metrics(&self) -> String;

    /// Whether the service can do its work. What is worth knowing although it can follows in lines of its own.
    ///
    /// # Errors
    /// A sentence that says what is missing; answered as 503.
    fn health(&self) -> Result<Vec<String>, String>;

    /// Leaves a copy of what the service keeps where a backup takes it; `None` where a service has nothing for one.
    fn copy(&self) -> Option<Copying<'_>> {
        None
    }
}

/// Answers on `listener` until dropped.
///
/// # Errors
/// When the listener itself fails for good; single connections never end it.
pub async fn serve(listener: TcpListener, admin: Arc<dyn Admin>) -> io::Result<()> {
    let slots = Arc::new(smol::lock::Semaphore::new(MAX_CONNECTIONS));
    let tasks = smol::Executor::new();
    let accepting = async {
        loop {
            let slot = slots.acquire_arc().await;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(&error) => {
                    smol::Timer::after(ACCEPT_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let admin = Arc::clone(&admin);
            let answering = async move {
                let late = async {
                    smol::Timer::after(DEADLINE).await;
                    Err(io::ErrorKind::TimedOut.into())
                };
                // The peer's trouble is the peer's: it sees its connection end.
                drop(answer(stream, &*admin).or(late).await);
                drop(slot);
            };
            tasks.spawn(answering).detach();
        }
    };
    tasks.run(accepting).await
}

/// How long to leave a listener alone that ran out of descriptors or memory; accepting at once would spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether accepting may work again: the peer's fault, or a shortage. accept(2): "treat them like EAGAIN by retrying".
pub fn is_transient(error: &io::Error) -> bool {
    // EBADF, EINVAL, ENOTSOCK and EFAULT mean that there is no listener any more.
    !matches!(error.raw_os_error(), Some(9 | 14 | 22 | 88))
}

async fn answer(mut stream: TcpStream, admin: &dyn Admin) -> io::Result<()> {
    let response = match read_head(&mut stream).await? {
        Some(head) => match copying(&head, admin) {
            Some(copying) => copied(copying.await),
            None => respond(&head, admin),
        },
        None => Response::too_large(),
    };
    send(stream, &response).await
}

/// Sends an answer, the last of its connection.
pub(crate) async fn send(mut stream: impl AsyncWrite + Unpin, response: &Response) -> io::Result<()> {
    stream.write_all(&response.to_bytes()).await?;
    stream.close().await
}

/// Everything up to the empty line; `None` if it does not come within bounds.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // Of one size, and wiped: it may have a token.
    let mut head = Zeroizing::new(Vec::with_capacity(MAX_REQUEST + CHUNK));
    let mut chunk = Zeroizing::new([0; CHUNK]);
    while head.len() < MAX_REQUEST {
        let count = stream.read(chunk.as_mut_slice()).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// The copy that a request asks for, if it asks for one.
fn copying<'a>(head: &[u8], admin: &'a dyn Admin) -> Option<Copying<'a>> {
    let asked =
        [b"POST /backup HTTP/1.1\r\n", b"POST /backup HTTP/1.0\r\n"].into_iter().any(|line| head.starts_with(line));
    // Of a page in a browser that somebody has open on this machine: an operator's command names no origin.
    let of_a_page = String::from_utf8_lossy(head).lines().any(|line| line.to_ascii_lowercase().starts_with("origin:"));
    (asked && !of_a_page).then(|| admin.copy()).flatten()
}

fn copied(copied: Result<(), String>) -> Response {
    match copied {
        Ok(()) => Response::new(200, "copied\n".into()),
        Err(why) => Response::new(503, why + "\n"),
    }
}

/// Pure: bytes of a request in, answer out.
pub(crate) fn respond(head: &[u8], admin: &dyn Admin) -> Response {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, b"HTTP/1.1" | b"HTTP/1.0"] = *words.as_slice() else {
        return Response::new(400, "This is HTTP/1.1: METHOD SP TARGET SP HTTP/1.1\n".into());
    };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let response = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => Response::new(200, admin.metrics() + &process::lines()),
        (b"GET" | b"HEAD", b"/healthz") => match admin.health() {
            Ok(notes) => {
                Response::new(200, ["ok".to_owned()].into_iter().chain(notes).map(|line| line + "\n").collect())
            }
            Err(reason) => Response::new(503, reason + "\n"),
        },
        (_, b"/metrics" | b"/healthz") => Response::new(405, "Use GET\n".into()),
        _ => Response::new(404, "There are /metrics and /healthz here\n".into()),
    };
    Response { head_only: method == b"HEAD", ..response }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    status: u16,
    body: String,
    head_only: bool,
}

impl Response {
    fn new(status: u16, body: String) -> Self {
        Self { status, body, head_only: false }
    }

    pub(crate) fn too_large() -> Self {
        Self::new(431, "Request too large\n".into())
    }

    pub(crate) fn unauthorised() -> Self {
        Self::new(401, "Show the token: Authorization: Bearer TOKEN\n".into())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let more = match self.status {
            401 => "WWW-Authenticate: Bearer\r\n",
            405 => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n",
            self.status,
            self.body.len()
        );
        let body = if self.head_only { "" } else { &self.body };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Fixed(Result<Vec<String>, String>);

    impl Admin for Fixed {
        fn metrics(&self) -> String {
            "x_total 1\n".into()
        }

        fn health(&self) -> Result<Vec<String>, String> {
            self.0.clone()
        }
    }

    fn status(request: &str) -> u16 {
        respond(request.as_bytes(), &Fixed(Ok(Vec::new()))).status
    }

    #[test]
    fn the_two_pages_and_nothing_else() {
        let page = respond(b"GET /metrics HTTP/1.1\r\n\r\n", &Fixed(Ok(Vec::new()))).body;
        assert!(page.starts_with("x_total 1\n") && page.contains("\nprocess_open_fds "), "{page}");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), 200);
        assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n"), 200);
        assert_eq!(respond(b"GET /healthz HTTP/1.1\r\n\r\n", &Fixed(Err("no disk".into()))).status, 503);
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status("GET /../metrics HTTP/1.1\r\n\r\n"), 404);
        assert_eq!(status("GET  /metrics HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("GET /metrics HTTP/2\r\n\r\n"), 400);
        assert_eq!(status("\x16\x03\x01"), 400);
    }

    struct Keeping(Result<(), String>);

    impl Admin for Keeping {
        fn metrics(&self) -> String {
            String::new()
        }

        fn health(&self) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }

        fn copy(&self) -> Option<Copying<'_>> {
            Some(Box::pin(async { self.0.clone() }))
        }
    }

    #[test]
    fn who_keeps_something_copies_it_when_it_is_posted_and_not_otherwise() {
        let post = b"POST /backup HTTP/1.1\r\n\r\n";
        let status = |result: Result<(), String>| {
            let keeping = Keeping(result);
            copied(latchkey_test_support::block_on(copying(post, &keeping).unwrap())).status
        };
        assert_eq!((status(Ok(())), status(Err("no disk".into()))), (200, 503));
        for other in
            ["GET /backup HTTP/1.1\r\n\r\n", "POST /backups HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n"]
        {
            assert!(copying(other.as_bytes(), &Keeping(Ok(()))).is_none(), "{other}");
        }
        assert!(copying(post, &Fixed(Ok(Vec::new()))).is_none(), "nothing is kept");
        assert_eq!(respond(post, &Fixed(Ok(Vec::new()))).status, 404);
    }

    #[test]
    fn notes_follow_the_good_news() {
        let notes = Fixed(Ok(vec!["policy is stale".into()]));
        assert_eq!(respond(b"GET /healthz HTTP/1.1\r\n\r\n", &notes).body, "ok\npolicy is stale\n");
    }

    #[test]
    fn head_has_the_length_but_not_the_body() {
        let bytes = respond(b"HEAD /healthz HTTP/1.1\r\n\r\n", &Fixed(Ok(Vec::new()))).to_bytes();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("Content-Length: 3\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_request_without_end_is_answered_431_after_a_bounded_read() {
        latchkey_test_support::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let serving = async { serve(listener, Arc::new(Fixed(Ok(Vec::new())))).await };
            let asking = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(&[b'a'; MAX_REQUEST]).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
                Ok(())
            };
            asking.or(serving).await.unwrap();
        });
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(head: Vec<u8>) {
            let status = respond(&head, &Fixed(Ok(Vec::new()))).status;
            prop_assert!([200, 400, 404, 405].contains(&status));
        }
    }
}
