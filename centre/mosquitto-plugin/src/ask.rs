//! One question to the auth service.

use latchkey_broker::protocol::{Answer, MAX_ANSWER, Question};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Asks, and waits for the answer, for no longer than `deadline` in all.
///
/// # Errors
/// Nobody listens, or answers in time, or the answer is none.
pub(crate) fn ask(socket: &Path, question: &Question, deadline: Duration) -> io::Result<Answer> {
    let end = Instant::now() + deadline;
    let left = || end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let left = || left().ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut));
    let line = question.line().map_err(io::Error::other)?;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // connect(2) waits for it as well, where too many others wait to be let in.
    set_socket_timeout(&stream, Timeout::Send, Some(deadline))?;
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    let mut stream = UnixStream::from(stream);
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    let mut part = [0; 8192];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        let read = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..read]);
        if read == 0 || part[..read].contains(&b'\n') {
            return Answer::parse(&answer).map_err(io::Error::other);
        }
        if answer.len() > MAX_ANSWER {
            return Err(io::Error::other("an answer that is too long"));
        }
    }
}
