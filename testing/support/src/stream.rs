//! What others write, read until they stop.

use crate::{PATIENCE, overdue};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

/// The lines of a stream, read as they come.
#[derive(Debug)]
pub struct Lines(Receiver<String>);

impl Lines {
    /// Reads to the end, whether anybody asks for the lines or not: the writer never waits.
    pub fn of(stream: impl Read + Send + 'static) -> Self {
        let (send, lines) = channel();
        std::thread::spawn(move || {
            // Text that is none ends it; who waits for a line then is told that there is none.
            BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        Self(lines)
    }

    /// The next line that is `wanted`; `None` if the stream ends before. All lines up to there are added to `seen`.
    ///
    /// # Panics
    /// If there is neither within [`PATIENCE`]: names `what` was waited for, and shows the lines.
    pub fn find(&self, what: &str, seen: &mut Vec<String>, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.0.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => overdue(&format_args!("{what} in:\n{}", seen.join("\n")), PATIENCE),
            }
            if let Some(line) = seen.last().filter(|line| wanted(line)) {
                return Some(line.clone());
            }
        }
    }

    /// The next line; `None` if the stream has ended.
    ///
    /// # Panics
    /// As [`Self::find`].
    pub fn next(&self, what: &str) -> Option<String> {
        self.find(what, &mut Vec::new(), |_| true)
    }

    /// Adds all lines up to the end to `seen`.
    ///
    /// # Panics
    /// As [`Self::find`].
    pub fn rest(&self, what: &str, seen: &mut Vec<String>) {
        self.find(what, seen, |_| false);
    }
}

/// What the peer sends before it hangs up; a reset is as good as an end.
///
/// # Panics
/// If it neither sends nor hangs up within [`PATIENCE`].
pub fn drained(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            overdue(&format_args!("{:?} to hang up", stream.peer_addr()), PATIENCE)
        }
        _ => bytes,
    }
}
