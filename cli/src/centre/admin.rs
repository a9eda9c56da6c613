//! What a service of ours says on its loopback address for operators.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Until somebody is there to be asked.
const CONNECT: Duration = Duration::from_secs(1);
/// The most bytes of an answer.
const LARGEST: u64 = 64 << 10;

/// An answer.
pub(crate) struct Said {
    /// Whether it is 200.
    pub(crate) good: bool,
    /// What stands in it.
    pub(crate) body: String,
}

/// Asks, and waits no longer than `time` for each part of the answer.
pub(crate) fn ask(admin: SocketAddr, what: &str, time: Duration) -> io::Result<Said> {
    let mut stream = TcpStream::connect_timeout(&admin, CONNECT)?;
    stream.set_read_timeout(Some(time))?;
    write!(stream, "{what} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut said = Vec::new();
    stream.take(LARGEST).read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let good = said.starts_with("HTTP/1.1 200") || said.starts_with("HTTP/1.0 200");
    let body = said.split_once("\r\n\r\n").map_or(said.as_str(), |(_, body)| body).trim().to_owned();
    Ok(Said { good, body })
}
