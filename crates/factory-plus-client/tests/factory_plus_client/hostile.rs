//! Servers that lie, on the wire.

use std::time::Duration;

use latchkey_factory_plus_client::{CallError, Insecure, Limits, Services, Trust};
use latchkey_test_support::block_on;
use serde_json::Value;

use crate::support::{SERVICE, client, limits, raw};

/// Small limits, so that a test need not wait or send much.
fn small() -> Limits {
    Limits { read: Duration::from_millis(300), whole: Duration::from_secs(20), answer: 100_000, ..limits() }
}

fn ask(head: &'static [u8], endless: &'static [u8], limits: Limits) -> CallError {
    let server = raw::answering(head, endless);
    let services = Services::fixed([(SERVICE, server.url.parse().unwrap())]);
    let client = client(services, Trust::none().allowing(Insecure), limits);
    let error = block_on(client.service(SERVICE).read::<Value>("v2/x")).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("configuration database: GET ") && text.contains(&server.url), "{text}");
    assert!(text.len() < 1000, "{text}");
    error
}

#[test]
fn what_is_no_http_is_a_wrong_answer() {
    for head in [
        b"SSH-2.0-OpenSSH\r\n\r\n".as_slice(),
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
    ] {
        let error = ask(head, b"", small());
        assert!(matches!(error, CallError::BadAnswer { .. }), "{error}");
    }
}

#[test]
fn endless_heads_and_bodies_are_bounded() {
    let bounded = Limits { read: Limits::default().read, ..small() };
    let ask = |head, endless| ask(head, endless, bounded.clone());
    let error = ask(b"HTTP/1.1 200 OK\r\n", b"x-a: bcdefgh\r\n");
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error}");
    let error = ask(b"HTTP/1.1 200 OK\r\nx: ", &[b'y'; 4096]);
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error}");
    let error = ask(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\n1234\r\n");
    assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
    let error = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999999\r\n\r\n", b"");
    assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
}

#[test]
fn silence_ends() {
    for head in [b"".as_slice(), b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n123"] {
        let error = ask(head, b"", small());
        assert!(matches!(error, CallError::Unreachable { .. }) && error.to_string().contains("silent"), "{error}");
    }
}

#[test]
fn an_answer_that_trickles_ends_with_the_whole_limit() {
    // It is never silent, and never too much.
    let limits = Limits { whole: Duration::from_millis(300), answer: usize::MAX, ..limits() };
    let error = ask(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n", limits);
    assert!(matches!(error, CallError::Unreachable { .. }) && error.to_string().contains("not done within"), "{error}");
}

#[test]
fn a_token_that_is_none_is_a_wrong_answer() {
    for head in [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".as_slice(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n{\"token\":\"a b\\n\",\"expiry\":1234}",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    ] {
        let error = ask(head, b"", small());
        assert!(matches!(error, CallError::BadAnswer { .. }), "{error}");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_nobodys_answer() {
    const BOTH: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n{\"token\":\"a\",\"expiry\":9}\
        HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n\"evil\"";
    let server = raw::answering(BOTH, b"");
    let services = Services::fixed([(SERVICE, server.url.parse().unwrap())]);
    let client = client(services, Trust::none().allowing(Insecure), limits());
    // The call has a connection of its own, and there it is the first.
    let answer = block_on(client.service(SERVICE).read::<Value>("v2/x")).unwrap().unwrap();
    assert_eq!(answer["token"], "a");
}

#[test]
fn what_a_server_says_cannot_write_into_a_log() {
    let error = ask(b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\na\r\nb\x1b[31m", b"", small());
    assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
}
