//! A service with a bit of everything, and a client that sends exactly what it is told.
#![allow(dead_code, reason = "each test file uses a part of it")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_factory_plus::notify;
use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_server::http::header::{CONTENT_SECURITY_POLICY, ETAG};
use latchkey_factory_plus_server::http::{HeaderValue, Method, StatusCode};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{
    About, Answer, Authenticated, Feed, FeedRefusal, Handler, HttpConfig, HttpServer, Nothing, Refusal, Request,
    Response, Running, Software, Subscribing, Tokens, Told, Updates,
};
use latchkey_test_support::PATIENCE;
use serde_json::{Value, json};
use smol::channel::{Receiver, Sender, bounded};
use smol::stream::StreamExt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const UPLOAD: u64 = 64 * 1024 * 1024;

pub(crate) struct Sample;

impl Handler for Sample {
    fn terms(&self, _: &Method, path: &str) -> latchkey_factory_plus_server::Terms {
        use latchkey_factory_plus_server::Terms;
        match path {
            "/open" | "/page" => Terms::open(),
            "/terms-panic" => panic!("as asked"),
            "/optional" => Terms::optional(),
            "/upload" | "/cat" => Terms::authenticated().body_limit(UPLOAD).time(Duration::from_mins(5)),
            "/slow" => Terms::authenticated().time(Duration::from_secs(1)),
            _ => Terms::authenticated(),
        }
    }

    async fn handle(&self, mut request: Request) -> Answer {
        let segments = request.segments()?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match (request.method(), segments.as_slice()) {
            (&Method::GET, ["open" | "optional" | "who"]) => {
                let who = request.caller().upn().map(ToString::to_string);
                Ok(Response::json(&json!({ "who": who, "id": request.id() }))?
                    .with(ETAG, HeaderValue::from_static("\"x\"")))
            }
            (&Method::GET, ["page"]) => {
                Ok(Response::bytes(StatusCode::OK, "text/html; charset=utf-8", "<!doctype html>").with(
                    CONTENT_SECURITY_POLICY,
                    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
                ))
            }
            (&Method::PUT, ["json"]) => Response::json(&request.json::<Value>().await?),
            (&Method::POST, ["upload"]) => {
                let mut count = 0;
                while let Some(piece) = request.body().chunk().await? {
                    count += piece.len();
                }
                Ok(Response::text(StatusCode::OK, count.to_string()))
            }
            (&Method::POST, ["cat"]) => cat(request),
            (&Method::GET, ["zeros"]) => zeros(),
            (&Method::GET, ["body-panic"]) => Ok(Response::stream(StatusCode::OK, Panics)),
            (_, ["panic"]) => panic!("as asked"),
            (_, ["slow"]) => std::future::pending().await,
            _ => Err(Refusal::not_found("There is nothing here")),
        }
    }
}

/// The body goes through a child process while the response comes out of it.
fn cat(request: Request) -> Answer {
    let child = smol::process::Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| Refusal::internal(error.to_string()))?;
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut body = request.into_body();
    smol::spawn(async move {
        drop(smol::io::copy(&mut body, &mut stdin).await);
        drop(stdin);
        drop(child.status().await);
    })
    .detach();
    Ok(Response::stream(StatusCode::OK, stdout))
}

/// As much as anybody takes, from a child process.
fn zeros() -> Answer {
    let child = smol::process::Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let mut child = child.map_err(|error| Refusal::internal(error.to_string()))?;
    let stdout = child.stdout.take().unwrap();
    Ok(Response::stream(StatusCode::OK, Owned { stdout, _child: child }))
}

struct Panics;

impl smol::io::AsyncRead for Panics {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut [u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        panic!("as asked")
    }
}

struct Owned {
    stdout: smol::process::ChildStdout,
    _child: smol::process::Child,
}

impl smol::io::AsyncRead for Owned {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut [u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.stdout).poll_read(context, buffer)
    }
}

/// Tells what is sent into its channel, to whoever watches `v2/thing`.
pub(crate) struct SampleFeed {
    pub(crate) updates: Receiver<notify::Update>,
}

impl Feed for SampleFeed {
    fn watch(&self, caller: Authenticated, request: notify::Request) -> Subscribing<'_> {
        assert!(!matches!(&request, notify::Request::Search { parent, .. } if parent == "panic/"), "as asked");
        Box::pin(async move {
            let uuid = request.uuid();
            let notify::Request::Watch { request, .. } = request else { return Err(FeedRefusal::NotWatchable) };
            match request.url.as_str() {
                "v2/thing" if caller.upn().name() == "nobody" => Err(FeedRefusal::Forbidden),
                "v2/thing" => {
                    let first = smol::stream::once(update(201, json!("first")));
                    Ok(Box::pin(first.chain(self.updates.clone()).map(Told::from)) as Updates)
                }
                "v2/ends" => Ok(Box::pin(smol::stream::once(update(201, json!(1)).into())) as Updates),
                "v2/finished" => {
                    let frame = |text: String, last| Told::Frame { text, last };
                    let first = frame(format!("{{ \"uuid\":\"{uuid}\", \"status\":201 }}"), false);
                    let last = frame(format!("{{\"uuid\":\"{uuid}\",\"status\":503}}"), true);
                    Ok(Box::pin(smol::stream::iter([first, last]).chain(smol::stream::pending())) as Updates)
                }
                "v2/pending" => Ok(Box::pin(smol::stream::pending()) as Updates),
                "v2/panic" => panic!("as asked"),
                "v2/flood" => {
                    Ok(Box::pin(smol::stream::repeat(update(200, json!("x".repeat(10_000))).into())) as Updates)
                }
                _ => Err(FeedRefusal::NotWatchable),
            }
        })
    }
}

pub(crate) fn update(status: u16, body: Value) -> notify::Update {
    let response = notify::Response { status: 200, body: Some(body), headers: serde_json::Map::new() };
    notify::Update { uuid: Uuid::NIL, status, response: Some(response), child: None, children: None }
}

pub(crate) struct Rig {
    pub(crate) running: Running,
    pub(crate) verifier: Arc<FakeVerifier>,
    pub(crate) tokens: Tokens,
    pub(crate) updates: Sender<notify::Update>,
}

pub(crate) fn about() -> About {
    let software = Software { vendor: "Latchkey", application: "sample", revision: "1" };
    About { version: "2.0.0", service: uuids::service::CONFIG_DB, device: None, software }
}

/// A service on loopback; `more` are fields of its configuration, `limits` of its limits.
#[expect(clippy::needless_pass_by_value, reason = "for json!")]
pub(crate) fn rig_with(more: Value, limits: Value) -> Rig {
    let mut section = json!({ "listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "limits": limits });
    if more.get("certificate").is_none() {
        section["insecure"] = true.into();
    }
    for (name, value) in more.as_object().unwrap() {
        section[name] = value.clone();
    }
    let config: HttpConfig = serde_json::from_value(section).unwrap();
    let verifier = Arc::new(FakeVerifier::of([
        ("admin@FACTORY.EXAMPLE", "sécret:word"),
        ("nobody@FACTORY.EXAMPLE", "pw"),
        ("op1flux/Building_1@FACTORY.EXAMPLE", "pw"),
    ]));
    let (send, updates) = bounded(16);
    let realm = "FACTORY.EXAMPLE".parse().unwrap();
    let server = HttpServer::new(&config, about(), realm, verifier.clone() as _, Sample).unwrap();
    let server = server.feed(Arc::new(SampleFeed { updates }));
    let tokens = server.tokens();
    let running = server.start(Arc::new(Nothing), Arc::new(Nothing)).unwrap();
    Rig { running, verifier, tokens, updates: send }
}

pub(crate) fn rig() -> Rig {
    rig_with(json!({}), json!({}))
}

impl Rig {
    pub(crate) fn connect(&self) -> Wire {
        Wire::to(self.running.address())
    }

    /// The answer to one request on a connection of its own.
    pub(crate) fn ask(&self, request: &str) -> Reply {
        let mut wire = self.connect();
        wire.send(request.as_bytes());
        wire.reply()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    pub(crate) fn token(&self) -> String {
        let reply = self.ask(&format!("POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{}\r\n", admin()));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// The value of one line of the metrics.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let mut wire = Wire::to(self.running.admin());
        wire.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let page = wire.reply().text();
        let line = page.lines().find_map(|found| found.strip_prefix(&format!("latchkey_http_{line} ")));
        line.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
    }
}

/// The line of a header.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

pub(crate) fn admin() -> String {
    basic("admin", "sécret:word")
}

pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let first = found.next();
        assert_eq!(found.next(), None, "{name} stands twice in {}", self.head);
        first
    }
}

/// A TCP connection.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The next response, with its body by its length, in chunks, or to the end.
    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_to(false)
    }

    pub(crate) fn reply_to(&mut self, head_only: bool) -> Reply {
        let end = self.until(b"\r\n\r\n");
        let head = String::from_utf8(self.take(end + 4)).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        if head_only || status == 204 || status == 304 || status == 101 {
            return reply;
        }
        if let Some(length) = reply.header("content-length").map(|length| length.parse().unwrap()) {
            while self.read.len() < length {
                assert!(self.more(), "the body ends early: {reply:?}");
            }
            reply.body = self.take(length);
        } else if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let end = self.until(b"\r\n");
                let length = usize::from_str_radix(str::from_utf8(&self.take(end)).unwrap(), 16).unwrap();
                self.take(2);
                while self.read.len() < length + 2 {
                    assert!(self.more(), "the body ends early");
                }
                reply.body.extend(self.take(length));
                self.take(2);
                if length == 0 {
                    break;
                }
            }
        } else {
            while self.more() {}
            reply.body = std::mem::take(&mut self.read);
        }
        reply
    }

    /// Whether the server closed the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.more()
    }

    fn until(&mut self, mark: &[u8]) -> usize {
        loop {
            if let Some(place) = self.read.windows(mark.len()).position(|window| window == mark) {
                return place;
            }
            assert!(self.more(), "the connection ended in {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        self.read.drain(..count).collect()
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.read.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// curl, or `None` with a word about it.
pub(crate) fn curl() -> Option<Command> {
    let mut command = Command::new("curl");
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        latchkey_test_support::skip("there is no curl; install the package curl");
        return None;
    }
    command.args(["--silent", "--show-error", "--max-time", "100", "--noproxy", "*"]);
    Some(command)
}
