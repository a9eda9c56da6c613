//! A mirror on loopback that answers each connection as a test says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// What to do with one connection; the text is the request's head.
pub type Answer = Box<dyn FnOnce(&str, TcpStream) + Send>;

/// A mirror that takes one connection for each answer, and then no more.
#[derive(Debug)]
pub struct Mirror {
    /// Where it is, without a path.
    pub address: String,
    requests: Receiver<String>,
}

impl Mirror {
    /// Listens, and answers in this order.
    ///
    /// # Panics
    /// Loopback has no port.
    pub fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let head = head(&mut stream);
                // The test may have its result and be gone.
                drop(sender.send(head.clone()));
                thread::spawn(move || answer(&head, stream));
            }
        });
        Self { address, requests }
    }

    /// The heads of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// These bytes, and the end of the connection.
pub fn says(bytes: impl Into<Vec<u8>>) -> Answer {
    let bytes = bytes.into();
    Box::new(move |_, mut stream| {
        drop(stream.write_all(&bytes));
        drop(stream.shutdown(Shutdown::Write));
    })
}

/// A status, headers and a body.
pub fn answers(status: &str, headers: &str, body: &[u8]) -> Answer {
    says([format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").as_bytes(), body].concat())
}

/// As a mirror should: the file, or the piece of it that is asked for.
pub fn serves(file: &'static [u8]) -> Answer {
    Box::new(move |head, stream| {
        let first = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let first = value.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok();
            if name.eq_ignore_ascii_case("range") { first } else { None }
        });
        let answer = match first {
            None => answers("200 OK", &format!("Content-Length: {}\r\n", file.len()), file),
            Some(first) if first < file.len() => {
                let (piece, whole) = (&file[first..], file.len());
                let headers = format!(
                    "Content-Length: {}\r\nContent-Range: bytes {first}-{}/{whole}\r\n",
                    piece.len(),
                    whole - 1
                );
                answers("206 Partial Content", &headers, piece)
            }
            Some(_) => answers("416 Range Not Satisfiable", "Content-Length: 0\r\n", b""),
        };
        answer(head, stream);
    })
}

/// The same, but the connection breaks after so many bytes of the body.
pub fn breaks_after(bytes: usize, file: &'static [u8]) -> Answer {
    let headers = format!("Content-Length: {}\r\n", file.len());
    answers("200 OK", &headers, &file[..bytes])
}

/// A part of it, and then nothing while the other side waits.
pub fn stalls_after(bytes: usize, file: &'static [u8]) -> Answer {
    Box::new(move |_, mut stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len());
        drop(stream.write_all(head.as_bytes()));
        drop(stream.write_all(&file[..bytes]));
        // Ends when the other side goes away.
        drop(stream.read(&mut [0]));
    })
}

/// The same bytes again and again, without saying how many, until the other side goes away.
pub fn never_ends() -> Answer {
    Box::new(move |_, mut stream| {
        let mut alive = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").is_ok();
        while alive {
            alive = stream.write_all(&[7; 4096]).is_ok();
        }
    })
}

/// One byte after the other, with the pauses of a slow line, until the other side goes away.
///
/// # Panics
/// The connection cannot be given a time-out.
pub fn trickles() -> Answer {
    Box::new(move |_, mut stream| {
        let mut alive = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").is_ok();
        // The pause is what is tested: reading waits this long, since nothing comes from the other side.
        stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        while alive {
            alive = stream.write_all(&[7]).is_ok() && !matches!(stream.read(&mut [0]), Ok(0));
        }
    })
}
