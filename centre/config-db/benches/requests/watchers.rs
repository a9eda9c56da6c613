//! Connections of change notification that search, and count what they are told: no more of RFC 6455 than that needs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use latchkey_config_db::Uuid;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use crate::content::WATCHED;

/// The bit of a frame whose payload is masked, and the length that says that two bytes of it follow.
const MASKED: u8 = 0x80;
const SHORT: u8 = 0x7e;
/// Final frames: text, and the question whether we are there.
const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const BUFFER: usize = 64 * 1024;

pub(crate) struct Watchers(Vec<Watcher>);

struct Watcher {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Watchers {
    /// So many, each with its first frame.
    pub(crate) fn open(count: u32, address: SocketAddr, token: &str) -> Self {
        Self((0..count).map(|_| Watcher::open(address, token)).collect())
    }

    /// Reads until all together were told so often.
    ///
    /// # Panics
    /// If one is told that it was too slow, or that it may not know, or is closed.
    pub(crate) fn told(&mut self, count: u64) {
        let mut told = 0;
        let mut buffer = vec![0; BUFFER];
        while told < count {
            let mut waiting: Vec<_> =
                self.0.iter().map(|watcher| PollFd::new(&watcher.stream, PollFlags::IN)).collect();
            poll(&mut waiting, None).unwrap();
            let ready: Vec<bool> = waiting.iter().map(|waiting| !waiting.revents().is_empty()).collect();
            for (watcher, _) in self.0.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                watcher.read(&mut buffer);
                while let Some(text) = watcher.take() {
                    assert!(contains(&text, b"\"child\""), "{}", String::from_utf8_lossy(&text));
                    told += 1;
                }
            }
        }
        assert_eq!(told, count, "more than there were changes");
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl Watcher {
    fn open(address: SocketAddr, token: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = "GET /notify/v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        let mut watcher = Self { stream, read: Vec::new() };
        watcher.say(&format!("Bearer {token}"));
        assert_eq!(watcher.text(), b"200");
        let parent = format!("v2/app/{WATCHED}/object/");
        watcher.say(&json!({"uuid": Uuid::random(), "method": "SEARCH", "parent": parent}).to_string());
        assert!(contains(&watcher.text(), b"\"children\""));
        watcher
    }

    /// A text, masked with zeros.
    fn say(&mut self, text: &str) {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        let frame = [&[TEXT, MASKED | SHORT], &length[..], &[0; 4], text.as_bytes()].concat();
        self.stream.write_all(&frame).unwrap();
    }

    fn text(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; BUFFER];
        loop {
            if let Some(text) = self.take() {
                return text;
            }
            self.read(&mut buffer);
        }
    }

    fn read(&mut self, buffer: &mut [u8]) {
        let more = self.stream.read(buffer).unwrap();
        assert!(more > 0, "the service closed the WebSocket");
        self.read.extend_from_slice(buffer.get(..more).unwrap());
    }

    /// The next text, of what was read.
    fn take(&mut self) -> Option<Vec<u8>> {
        loop {
            let (kind, head, length) = match *self.read.as_slice() {
                [kind, 127, ref rest @ ..] => {
                    (kind, 10, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).unwrap())
                }
                [kind, 126, a, b, ..] => (kind, 4, usize::from(u16::from_be_bytes([a, b]))),
                [kind, length @ ..=125, ..] => (kind, 2, usize::from(length)),
                _ => return None,
            };
            if self.read.len() < head + length {
                return None;
            }
            let payload = self.read.drain(..head + length).skip(head).collect();
            match kind {
                TEXT => return Some(payload),
                PING => {}
                other => panic!("a frame of kind {other:#x}"),
            }
        }
    }
}
