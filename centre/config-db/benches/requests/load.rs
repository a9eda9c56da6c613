//! Keep-alive connections that ask as fast as they are answered: two threads, as pgbench has.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::content::Parts;

const CONNECTIONS: usize = 16;
const THREADS: usize = 2;
/// Longer than any answer here.
const BUFFER: usize = 4096;

pub(crate) struct Connections {
    connections: Vec<Connection>,
    token: String,
}

struct Connection {
    stream: TcpStream,
    buffer: [u8; BUFFER],
    read: usize,
    asks: bool,
}

impl Connections {
    pub(crate) fn open(address: SocketAddr, token: &str) -> Self {
        let open = || {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            Connection { stream, buffer: [0; BUFFER], read: 0, asks: false }
        };
        Self { connections: (0..CONNECTIONS).map(|_| open()).collect(), token: token.to_owned() }
    }

    /// Asks so many times, all connections together: how long it took.
    ///
    /// # Panics
    /// If an answer has another status.
    pub(crate) fn ask(&mut self, count: u32, status: u16, parts: impl Fn(u32) -> Parts + Sync) -> Duration {
        let asked = AtomicU32::new(0);
        // The text of the next request, of those that are left.
        let next = || {
            let number = asked.fetch_add(1, Relaxed);
            (number < count).then(|| text(&self.token, &parts(number)))
        };
        let began = Instant::now();
        std::thread::scope(|scope| {
            for connections in self.connections.chunks_mut(CONNECTIONS / THREADS) {
                scope.spawn(|| ask(connections, status, &next));
            }
        });
        began.elapsed()
    }
}

fn text(token: &str, (method, path, body): &Parts) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
    match body {
        None => head + "\r\n",
        Some((kind, body)) => {
            format!("{head}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
    }
}

fn ask(connections: &mut [Connection], status: u16, next: &impl Fn() -> Option<String>) {
    for connection in &mut *connections {
        connection.send(next());
    }
    loop {
        let mut asking: Vec<&mut Connection> = connections.iter_mut().filter(|connection| connection.asks).collect();
        if asking.is_empty() {
            return;
        }
        let ready: Vec<bool> = {
            let mut waiting: Vec<_> =
                asking.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
            poll(&mut waiting, None).unwrap();
            waiting.iter().map(|waiting| !waiting.revents().is_empty()).collect()
        };
        for (connection, _) in asking.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if connection.receive(status) {
                connection.send(next());
            }
        }
    }
}

impl Connection {
    fn send(&mut self, request: Option<String>) {
        self.asks = request.is_some();
        if let Some(request) = request {
            self.stream.write_all(request.as_bytes()).unwrap();
        }
    }

    /// Reads once; whether the answer is whole.
    fn receive(&mut self, wanted: u16) -> bool {
        let more = self.stream.read(self.buffer.get_mut(self.read..).unwrap()).unwrap();
        assert!(more > 0, "the service closed the connection");
        self.read += more;
        let answer = str::from_utf8(self.buffer.get(..self.read).unwrap()).unwrap();
        let Some(status) = status(answer) else { return false };
        assert_eq!(status, wanted, "{answer}");
        self.read = 0;
        true
    }
}

/// The status of a response that is whole.
fn status(answer: &str) -> Option<u16> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let fields = || head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let length = fields().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    (body.len() >= length).then(|| head.split(' ').nth(1).unwrap().parse().unwrap())
}
