//! A small HTTP/1.1 front for tests: Basic credentials, one request per connection, bodies with a length or in chunks.

use std::io::Write;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::{io, str};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_factory_plus::grants::Access;
use latchkey_git_server::backend::RequestHead;
use latchkey_git_server::paths::{Method, PathError, Target};
use latchkey_git_server::rights::Caller;
use latchkey_git_server::server::{GitServer, Reply};
use latchkey_test_support::drained;
use smol::channel::{Receiver, Sender, bounded};
use smol::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use smol::net::{TcpListener, TcpStream};
use smol::stream::Stream as _;

use super::PASSWORD;

pub struct Front {
    address: SocketAddr,
    seen: Arc<Seen>,
    _accepting: smol::Task<()>,
}

/// What requests had, and what is to be done to them.
#[derive(Default)]
pub struct Seen {
    pub gzip: AtomicBool,
    pub version_2: AtomicBool,
    /// A body breaks off after so many bytes; 0: none does.
    pub cut_after: AtomicU64,
    pub refused: Mutex<Vec<u16>>,
}

struct Shared {
    server: GitServer,
    rights: fn(&str) -> Vec<Access>,
    seen: Arc<Seen>,
}

impl Front {
    pub fn start(server: GitServer, rights: fn(&str) -> Vec<Access>) -> Self {
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Seen::default()));
        let shared = Arc::new(Shared { server, rights, seen: Arc::clone(&seen) });
        let accepting = smol::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                // A client that breaks off is a client's affair.
                smol::spawn(async move { drop(shared.connection(stream).await) }).detach();
            }
        });
        Self { address, seen, _accepting: accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Shared {
    async fn connection(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.clone());
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut text).await? == 0 {
                return Ok(());
            }
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(&text).map_err(|error| io::Error::other(error.to_string()))?;
        let header = |name: &str| {
            let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| str::from_utf8(header.value).ok()).map(str::to_owned)
        };
        if header("expect").is_some() {
            stream.clone().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let head = RequestHead {
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            content_length: header("content-length").and_then(|length| length.parse().ok()),
            git_protocol: header("git-protocol"),
        };
        self.seen.gzip.fetch_or(head.content_encoding.as_deref() == Some("gzip"), SeqCst);
        self.seen.version_2.fetch_or(head.git_protocol.as_deref() == Some("version=2"), SeqCst);
        let Some(user) = header("authorization").as_deref().and_then(basic) else {
            let challenge = "WWW-Authenticate: Basic realm=\"Factory+\"\r\n";
            return say(&stream, 401, challenge, b"").await;
        };
        let body = self.body(reader, head.content_length, header("transfer-encoding").is_some());
        let (path, query) =
            request.path.unwrap().split_once('?').map_or((request.path.unwrap(), None), |(p, q)| (p, Some(q)));
        let target = match request.method.unwrap() {
            "GET" => Target::read(Method::Get, path, query),
            "POST" => Target::read(Method::Post, path, query),
            _ => Target::read(Method::Delete, path, query),
        };
        let rights = (self.rights)(&user);
        let caller = Caller { name: &user, root: false, list: &rights };
        match target {
            Err(PathError::Unknown) => say(&stream, 404, "", b"").await,
            Err(PathError::Method) => say(&stream, 405, "", b"").await,
            Err(PathError::Dumb) => say(&stream, 403, "", b"").await,
            Ok(target) => match self.server.reply(caller, target, &head, body).await {
                Ok(reply) => answer(stream, reply).await,
                Err(error) => {
                    self.seen.refused.lock().unwrap().push(error.status());
                    say(&stream, error.status(), "", error.to_string().as_bytes()).await
                }
            },
        }
    }

    /// The body, read ahead by at most some chunks.
    fn body(&self, reader: BufReader<TcpStream>, length: Option<u64>, chunked: bool) -> Body {
        let (sender, receiver) = bounded(2);
        let cut_after = Some(self.seen.cut_after.load(SeqCst)).filter(|cut| *cut > 0);
        smol::spawn(async move {
            let outcome = if chunked { chunks(reader, &sender).await } else { plain(reader, length, &sender).await };
            if let Err(error) = outcome {
                drop(sender.send(Err(error)).await);
            }
        })
        .detach();
        Body { chunks: Box::pin(receiver), bytes: Vec::new(), read: 0, cut_after }
    }
}

type Chunk = io::Result<Vec<u8>>;

async fn plain(reader: BufReader<TcpStream>, length: Option<u64>, sender: &Sender<Chunk>) -> io::Result<()> {
    let length = length.unwrap_or(0);
    let mut reader = reader.take(length);
    let (mut buffer, mut total) = (vec![0; 16384], 0);
    loop {
        match reader.read(&mut buffer).await? {
            0 if total == length => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count if sender.send(Ok(buffer[..count].to_vec())).await.is_err() => return Ok(()),
            count => total += count as u64,
        }
    }
}

async fn chunks(mut reader: BufReader<TcpStream>, sender: &Sender<Chunk>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).await?;
        chunk.truncate(length);
        if length == 0 || sender.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
}

pub struct Body {
    chunks: Pin<Box<Receiver<Chunk>>>,
    bytes: Vec<u8>,
    read: u64,
    cut_after: Option<u64>,
}

impl AsyncRead for Body {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.cut_after.is_some_and(|cut| self.read >= cut) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.bytes.is_empty() {
            match ready!(self.chunks.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(0)),
                Some(chunk) => self.bytes = chunk?,
            }
        }
        let count = self.bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes.drain(..count);
        self.read += count as u64;
        Poll::Ready(Ok(count))
    }
}

async fn answer(stream: TcpStream, reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Done => say(&stream, 204, "", b"").await,
        Reply::Json(value) => say(&stream, 200, "", value.to_string().as_bytes()).await,
        Reply::Git(mut git) => {
            let headers: Vec<_> = git.head.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let headers = headers.concat();
            let head = format!(
                "HTTP/1.1 {} X\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{headers}\r\n",
                git.head.status
            );
            let mut stream = stream;
            stream.write_all(head.as_bytes()).await?;
            let mut buffer = vec![0; 16384];
            loop {
                let count = git.body.read(&mut buffer).await?;
                stream.write_all(format!("{count:x}\r\n").as_bytes()).await?;
                stream.write_all(&buffer[..count]).await?;
                stream.write_all(b"\r\n").await?;
                if count == 0 {
                    return Ok(());
                }
            }
        }
    }
}

async fn say(stream: &TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.clone().write_all(&[head.as_bytes(), body].concat()).await
}

fn basic(header: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(header.strip_prefix("Basic ")?).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    (password == PASSWORD).then(|| user.to_owned())
}

/// A request with credentials sent at once, as Flux does: status and body.
pub fn request(address: SocketAddr, method: &str, path: &str, user: &str) -> (u16, Vec<u8>) {
    let credentials = STANDARD.encode(format!("{user}:{PASSWORD}"));
    let mut stream = StdStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
    )
    .unwrap();
    let answer = drained(&mut stream);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let status = str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[end..].to_vec())
}
