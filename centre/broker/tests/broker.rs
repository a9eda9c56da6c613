//! The socket, as the plugin and others meet it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_broker::protocol::{Answer, MAX_QUESTION, Password, Question};
use latchkey_broker::server::{Authority, Limits, Refusal, Server};
use latchkey_broker::{Access, Filter, Grant, Grants};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// Fake: one principal, whose password is `right`, and one that may use no topic; it counts how often it is asked.
#[derive(Clone, Default)]
struct Fake(Arc<AtomicUsize>);

impl Authority for Fake {
    async fn verify(&self, username: &str, password: &Zeroizing<Vec<u8>>) -> Result<String, Refusal> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match (username, password.as_slice()) {
            ("alice", b"right") => Ok("alice@R".into()),
            ("alice", b"of another") => Ok("bob@R".into()),
            ("alice", b"later") => Err(Refusal { code: "away".into(), outage: true }),
            _ => Err(Refusal { code: "wrong".into(), outage: false }),
        }
    }

    async fn grants(&self, principal: &str) -> Result<Grants, Refusal> {
        let grant = Grant { filter: Filter::parse("a").unwrap(), access: Access::parse("r").unwrap() };
        Ok(Grants(if principal == "alice@R" { vec![grant] } else { vec![] }))
    }
}

struct Socket {
    path: PathBuf,
    asked: Fake,
    _directory: TempDir,
    _task: smol::Task<()>,
}

fn serve(users: Vec<u32>) -> Socket {
    let directory = TempDir::with_prefix("latchkey-broker-").unwrap();
    let (path, asked) = (directory.path().join("auth.sock"), Fake::default());
    let limits = Limits { users, remember: Duration::from_mins(1), failures: 3, window: Duration::from_mins(10) };
    let server = Server::bind(&path, asked.clone(), limits).unwrap();
    let task = smol::spawn(async move { drop(server.run().await) });
    Socket { path, asked, _directory: directory, _task: task }
}

fn me() -> u32 {
    rustix::process::getuid().as_raw()
}

fn send(path: &Path, line: &[u8]) -> Vec<u8> {
    let (path, line) = (path.to_owned(), line.to_owned());
    latchkey_test_support::in_time("an answer", move || {
        let mut stream = UnixStream::connect(path).unwrap();
        // It may have hung up already.
        let _ = stream.write_all(&line);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    })
}

fn connect(path: &Path, password: &str, address: &str) -> Answer {
    let password = Password(Zeroizing::new(password.to_owned()));
    let question = Question::Connect { username: "alice".into(), password, address: address.into() };
    Answer::parse(&send(path, &question.line().unwrap())).unwrap()
}

fn code(answer: &Answer) -> &str {
    match answer {
        Answer::Refused { code, .. } => code,
        Answer::Allowed { .. } => "allowed",
    }
}

#[test]
fn another_user_is_told_nothing() {
    let socket = serve(vec![me() + 1]);
    let question = Question::Refresh { principal: "alice@R".into() };
    assert!(send(&socket.path, &question.line().unwrap()).is_empty());
}

#[test]
fn a_verified_password_is_remembered_and_no_other_is() {
    let socket = serve(vec![me()]);
    for _ in 0..5 {
        assert_eq!(code(&connect(&socket.path, "right", "1")), "allowed");
    }
    assert_eq!(socket.asked.0.load(Ordering::Relaxed), 1);
    assert_eq!(code(&connect(&socket.path, "rightalice", "1")), "wrong");
}

#[test]
fn who_may_use_no_topic_is_refused_whether_it_connects_or_is_connected() {
    let socket = serve(vec![me()]);
    assert_eq!(code(&connect(&socket.path, "of another", "1")), "broker-no-topics");
    let refresh = |principal: &str| {
        let question = Question::Refresh { principal: principal.into() };
        Answer::parse(&send(&socket.path, &question.line().unwrap())).unwrap()
    };
    let gone = Answer::Refused { code: "broker-no-topics".into(), outage: false };
    assert_eq!((refresh("bob@R"), code(&refresh("alice@R"))), (gone, "allowed"));
}

#[test]
fn failures_are_counted_by_name_and_address_and_outages_are_not() {
    let socket = serve(vec![me()]);
    for _ in 0..5 {
        assert_eq!(code(&connect(&socket.path, "later", "1")), "away");
    }
    for _ in 0..3 {
        assert_eq!(code(&connect(&socket.path, "guess", "1")), "wrong");
    }
    let asked = socket.asked.0.load(Ordering::Relaxed);
    assert_eq!(code(&connect(&socket.path, "right", "1")), "broker-too-many-failures");
    assert_eq!(socket.asked.0.load(Ordering::Relaxed), asked);
    assert_eq!(code(&connect(&socket.path, "right", "2")), "allowed");
}

#[test]
fn lines_that_are_no_question_or_too_long_get_no_further() {
    let socket = serve(vec![me()]);
    let answer = Answer::parse(&send(&socket.path, b"{\"connect\":{\"username\":\"alice\"}}\n")).unwrap();
    assert_eq!(code(&answer), "broker-question-malformed");
    assert!(send(&socket.path, &vec![b' '; MAX_QUESTION + 1]).is_empty());
    assert_eq!(socket.asked.0.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_no_socket_is_not_replaced_and_a_dead_one_is() {
    let directory = TempDir::with_prefix("latchkey-broker-").unwrap();
    let path = directory.path().join("auth.sock");
    let limits = Limits { users: vec![], remember: Duration::ZERO, failures: 1, window: Duration::ZERO };
    drop(Server::bind(&path, Fake::default(), limits.clone()).unwrap());
    drop(Server::bind(&path, Fake::default(), limits.clone()).unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    assert!(Server::bind(&path, Fake::default(), limits).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
