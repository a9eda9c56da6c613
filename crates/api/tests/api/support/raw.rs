//! A peer that writes HTTP/2 frames as it likes.

use super::{pipe::End, services};
use latchkey_api::grpc::{ConnectionError, Limits};
use smol::{
    Task,
    channel::Receiver,
    io::{AsyncReadExt, AsyncWriteExt},
};
use std::io;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection to our server, and how the server took it.
pub struct Raw {
    pub stream: End,
    pub serving: Task<Result<(), ConnectionError>>,
    pub events: Receiver<&'static str>,
    pub release: smol::channel::Sender<()>,
}

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header block of literals without indexing (RFC 7541, section 6.2.2), each string below 127 bytes.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// The headers of a call, and more.
pub fn call(method: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields.extend(more);
    headers(&fields)
}

impl Raw {
    /// Connects and says nothing.
    pub fn silent(limits: Limits) -> Self {
        let (near, far) = super::pipe::pipe();
        let (peer, events, release) = super::peer();
        let server = services::server(limits);
        let serving = smol::spawn(async move { server.serve(far, peer).await });
        Self { stream: near, serving, events, release }
    }

    /// Connects and says what every client says first.
    pub async fn open(limits: Limits) -> Self {
        let mut raw = Self::silent(limits);
        raw.write(PREFACE).await.unwrap();
        raw.write(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        raw
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Starts a call without ending its request.
    pub async fn start(&mut self, stream: u32, method: &str, more: &[(&str, &str)]) {
        self.write(&frame(HEADERS, END_HEADERS, stream, &call(method, more))).await.unwrap();
    }

    /// The next frame that is not SETTINGS, `WINDOW_UPDATE` or PING: kind, flags, stream and payload.
    pub async fn read(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if ![SETTINGS, 8, PING].contains(&head[3]) {
                return Ok((head[3], head[4], stream, payload));
            }
        }
    }

    /// Writes the same bytes until the server hangs up, reading what it says; how many times they were taken.
    pub async fn flood(self, bytes: &[u8], at_most: usize) -> (usize, Result<(), ConnectionError>) {
        let (mut reader, mut writer) = smol::io::split(self.stream);
        let drain = smol::spawn(async move { smol::io::copy(&mut reader, &mut smol::io::sink()).await });
        let mut taken = 0;
        while taken < at_most && writer.write_all(bytes).await.is_ok() {
            taken += 1;
        }
        drop(writer);
        drain.cancel().await;
        (taken, self.serving.await)
    }
}
