//! A fake: the metadata server of a cloud, on loopback. It says what clouds document that theirs say, or what a test has it say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Status, more headers (each with its line end), body.
pub type Says = (u16, &'static str, String);

/// A server that lives as long as the test's process.
#[derive(Debug)]
pub struct FakeServer {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    /// Answers each question, which is given whole.
    pub fn new(answer: impl Fn(&str) -> Says + Send + 'static) -> Self {
        Self::raw(move |question| {
            let (status, headers, body) = answer(question);
            format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        })
    }

    /// The same with all bytes of each answer.
    ///
    /// # Panics
    /// Loopback has no port.
    pub fn raw(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let question = question(&mut stream);
                log.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
                // Who refuses an answer may hang up before its end.
                let _ = stream.get_mut().write_all(&answer(&question));
            }
        });
        Self { address, heard }
    }

    /// The server of this cloud (`aws`, `gcp`, `azure`, `openstack`, `hetzner`), with this document as the instance's user data.
    pub fn of(cloud: &'static str, document: Option<&str>) -> Self {
        let document = document.map(str::to_owned);
        Self::new(move |question| documented(cloud, document.as_deref(), question))
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All questions so far.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn question(stream: &mut impl std::io::BufRead) -> String {
    let mut question = String::new();
    while !question.ends_with("\r\n\r\n") && stream.read_line(&mut question).is_ok_and(|read| read > 0) {}
    let length = question.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    question + &String::from_utf8(body).unwrap()
}

/// There is no such thing.
pub fn nothing() -> Says {
    (404, "", "no such thing".into())
}

/// What clouds document: paths, headers that they insist on, forms of answers. Each instance is called `edge-7`, in its cloud's way.
fn documented(cloud: &str, document: Option<&str>, question: &str) -> Says {
    let (line, rest) = question.split_once("\r\n").unwrap();
    let has = |header: &str| rest.lines().any(|line| line == header);
    let given = || document.map_or_else(nothing, |document| (200, "", document.into()));
    let says = |text: &str| (200, "", text.to_owned());
    let of_google = |(status, _, body): Says| (status, "Metadata-Flavor: Google\r\n", body);
    match (cloud, line.strip_suffix(" HTTP/1.1").unwrap_or_default()) {
        ("aws", "PUT /latest/api/token") if has("X-aws-ec2-metadata-token-ttl-seconds: 60") => says("t0k3n=="),
        ("aws", _) if !has("X-aws-ec2-metadata-token: t0k3n==") => (401, "", String::new()),
        ("hetzner", "GET /hetzner/v1/userdata") if document.is_none() => (204, "", String::new()),
        ("aws", "GET /latest/user-data")
        | ("openstack", "GET /openstack/latest/user_data")
        | ("hetzner", "GET /hetzner/v1/userdata") => given(),
        ("aws", "GET /latest/meta-data/local-hostname") => says("ip-10-0-2-15.eu-central-1.compute.internal"),
        ("gcp", _) if !has("Metadata-Flavor: Google") => (403, "", String::new()),
        ("gcp", "GET /computeMetadata/v1/instance/attributes/latchkey-metadata") => of_google(given()),
        ("gcp", "GET /computeMetadata/v1/instance/name") => of_google(says("edge-7")),
        ("azure", "GET /machine/?comp=goalstate") if has("x-ms-version: 2012-11-30") => says(GOAL_STATE),
        ("azure", "POST /machine?comp=health") if has("x-ms-version: 2012-11-30") => says(""),
        ("azure", _) if !has("Metadata: true") => (400, "", String::new()),
        ("azure", "GET /metadata/instance/compute/userData?api-version=2021-01-01&format=text") => {
            says(&document.map(|document| STANDARD.encode(document)).unwrap_or_default())
        }
        ("azure", "GET /metadata/instance/compute/name?api-version=2021-01-01&format=text") => says("Edge-7"),
        ("openstack", "GET /openstack/latest/meta_data.json") => {
            says(r#"{"uuid":"d8e0","hostname":"edge-7.novalocal","meta":{"a":"b"}}"#)
        }
        ("hetzner", "GET /hetzner/v1/metadata/hostname") => says("edge-7\n"),
        _ => nothing(),
    }
}

const GOAL_STATE: &str = "<?xml version=\"1.0\"?><GoalState><Version>2012-11-30</Version><Incarnation>1</Incarnation>\
    <Machine><ExpectedState>Started</ExpectedState></Machine><Container><ContainerId>c-1</ContainerId><RoleInstanceList>\
    <RoleInstance><InstanceId>0a.web_1</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>";
