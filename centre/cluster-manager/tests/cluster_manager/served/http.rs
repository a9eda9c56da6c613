//! Requests by hand: of browsers, edges and others who are not our own client.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use latchkey_test_support::drained;

/// An answer: status, head and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A request of somebody who does not say who he is.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    send(address, method, path, headers, "")
}

/// The same with a body of JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    send(address, "POST", path, &headers, body)
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n{body}").unwrap();
    let answer = drained(&mut stream);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    Answer { status: head[9..12].parse().unwrap(), head, body: answer[end..].to_vec() }
}
