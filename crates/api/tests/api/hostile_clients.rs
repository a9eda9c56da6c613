//! Clients that break the protocol, flood, or do nothing: their call or connection ends, and nobody else's.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use crate::support::raw::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, Raw, SETTINGS, call,
    frame, headers,
};
use latchkey_api::{
    grpc::{Channel, Code, ConnectionError, Keepalive, Limits},
    v1,
};
use smol::io::AsyncReadExt;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(50);
const GET_DATA_KEY: &str = "/latchkey.v1.Keys/GetDataKey";

/// What a caller with these headers and this body gets: the answer's head, and the code in it.
async fn answer(limits: Limits, more: &[(&'static str, &'static str)], body: &[u8]) -> (http::Response<()>, Code) {
    let (near, far) = support::pipe::pipe();
    let (peer, _events, _release) = support::peer();
    let server = support::services::server(limits);
    let _serving = smol::spawn(async move { server.serve(far, peer).await });
    let (requests, connection) = h2::client::handshake(support::pipe::Tokio(near)).await.unwrap();
    let _connection = smol::spawn(connection);
    let mut request = http::Request::post(format!("http://x{GET_DATA_KEY}"));
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let mut requests = requests.ready().await.unwrap();
    let (response, mut stream) = requests.send_request(request.body(()).unwrap(), false).unwrap();
    // The server may have answered already, when it does not like the headers.
    let _ = stream.send_data(bytes::Bytes::copy_from_slice(body), true);
    let (head, _) = response.await.unwrap().into_parts();
    let code = head.headers.get("grpc-status").map_or(0, |code| code.to_str().unwrap().parse().unwrap());
    (http::Response::from_parts(head, ()), Code::from_number(code))
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

#[test]
fn what_is_not_grpc_gets_an_http_error() {
    latchkey_test_support::block_on(async {
        for more in [&[("content-type", "application/json")][..], &[("content-type", "application/grpc+json")], &[]] {
            assert_eq!(answer(Limits::default(), more, &[0; 5]).await.0.status(), 415);
        }
    });
}

#[test]
fn an_encoding_is_refused_and_the_answer_lists_what_is_read() {
    latchkey_test_support::block_on(async {
        let (head, code) = answer(Limits::default(), &[GRPC, ("grpc-encoding", "gzip")], &[1, 0, 0, 0, 1, 0]).await;
        assert_eq!((head.status().as_u16(), code), (200, Code::Unimplemented));
        assert_eq!(head.headers()["grpc-accept-encoding"], "identity");
    });
}

#[test]
fn broken_requests_get_the_code_of_the_specification() {
    latchkey_test_support::block_on(async {
        let bodies: [(&[u8], Code); 7] = [
            (&[1, 0, 0, 0, 1, 0], Code::Internal), // compressed without an encoding
            (&[9, 0, 0, 0, 0], Code::Internal),    // no such flag
            (&[0, 0xff, 0xff, 0xff, 0xff], Code::ResourceExhausted), // 4 GiB announced
            (&[0, 0, 0, 0, 9, 1], Code::Internal), // truncated
            (&[], Code::Unimplemented),            // no message
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Code::Unimplemented), // two messages
            (&[0, 0, 0, 0, 2, 0x0a, 0xff], Code::Internal), // no protobuf
        ];
        for (body, expected) in bodies {
            assert_eq!(answer(Limits::default(), &[GRPC], body).await.1, expected, "{body:?}");
        }
    });
}

#[test]
fn a_malformed_timeout_is_refused_and_not_ignored() {
    latchkey_test_support::block_on(async {
        for timeout in ["1", "S", "-1S", "123456789S", "1x"] {
            let (_, code) = answer(Limits::default(), &[GRPC, ("grpc-timeout", timeout)], &[0; 5]).await;
            assert_eq!(code, Code::Internal, "{timeout}");
        }
    });
}

#[test]
fn the_server_keeps_the_deadline_for_a_caller_that_does_not() {
    latchkey_test_support::block_on(async {
        let never = [&[0, 0, 0, 0, 7, 0x0a, 5][..], b"never"].concat();
        let (_, code) = answer(Limits::default(), &[GRPC, ("grpc-timeout", "50m")], &never).await;
        assert_eq!(code, Code::DeadlineExceeded);
    });
}

#[test]
fn a_request_that_never_ends_is_given_up() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits { stall: SHORT, ..Limits::default() }).await;
        raw.start(1, GET_DATA_KEY, &[]).await;
        let (kind, flags, stream, _) = raw.read().await.unwrap();
        assert_eq!((kind, flags, stream), (HEADERS, END_HEADERS | END_STREAM, 1), "a status, without more ado");
        let (kind, _, stream, reason) = raw.read().await.unwrap();
        assert_eq!((kind, stream, &reason[..]), (RST_STREAM, 1, &[0, 0, 0, 0][..]), "and no interest in the rest");
    });
}

#[test]
fn a_caller_that_opens_no_window_loses_its_call() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::silent(Limits { stall: SHORT, ..Limits::default() });
        raw.write(PREFACE).await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE = 0
        raw.write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await.unwrap();
        // In one piece: a body that came late would be what is given up.
        let head = frame(HEADERS, END_HEADERS, 1, &call(GET_DATA_KEY, &[]));
        let body = frame(DATA, END_STREAM, 1, &[0, 0, 0, 0, 5, 0x0a, 1, b'x', 0x10, 32]);
        raw.write(&[head, body].concat()).await.unwrap();
        let mut kinds = Vec::new();
        while kinds.last() != Some(&(HEADERS, END_HEADERS | END_STREAM)) {
            let (kind, flags, ..) = raw.read().await.unwrap();
            assert_ne!(kind, DATA);
            kinds.push((kind, flags));
        }
        assert_eq!(kinds.len(), 2, "headers, then trailers with the failure");
    });
}

#[test]
fn garbage_instead_of_a_preface_ends_the_connection() {
    latchkey_test_support::block_on(async {
        for garbage in [
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let mut raw = Raw::silent(Limits::default());
            raw.write(garbage).await.unwrap();
            assert!(matches!(raw.serving.await, Err(ConnectionError::Http2(_))));
        }
    });
}

#[test]
fn a_peer_that_says_nothing_is_sent_away() {
    latchkey_test_support::block_on(async {
        let raw = Raw::silent(Limits { handshake: SHORT, ..Limits::default() });
        assert!(matches!(raw.serving.await, Err(ConnectionError::Handshake(limit)) if limit == SHORT));
    });
}

#[test]
fn a_peer_that_answers_no_ping_is_given_up() {
    latchkey_test_support::block_on(async {
        let keepalive = Some(Keepalive { interval: SHORT, timeout: SHORT });
        let raw = Raw::open(Limits { keepalive, ..Limits::default() }).await;
        assert!(matches!(raw.serving.await, Err(ConnectionError::Unresponsive(limit)) if limit == SHORT));
    });
}

#[test]
fn a_peer_that_leaves_in_the_middle_of_a_call_cancels_it() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        raw.start(1, GET_DATA_KEY, &[]).await;
        raw.write(&frame(DATA, END_STREAM, 1, &[&[0, 0, 0, 0, 7, 0x0a, 5][..], b"never"].concat())).await.unwrap();
        assert_eq!(raw.events.recv().await.unwrap(), "started");
        drop(raw.stream);
        assert_eq!(raw.events.recv().await.unwrap(), "dropped");
        let _ = raw.serving.await;
    });
}

#[test]
fn too_many_headers_fail_the_call_and_not_the_connection() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        let value = "x".repeat(100);
        let many: Vec<_> = (0..100).map(|_| ("x-filler", value.as_str())).collect();
        raw.start(1, GET_DATA_KEY, &many).await;
        let (kind, flags, stream, block) = raw.read().await.unwrap();
        assert_eq!((kind, flags & END_STREAM, stream), (HEADERS, END_STREAM, 1));
        // ":status: 431" is not in the static table: a literal with the name's index 8.
        assert_eq!(block.first().map(|byte| byte & 0x3f), Some(8), "an HTTP status other than the usual");
        // The connection still serves.
        raw.start(3, GET_DATA_KEY, &[]).await;
        raw.write(&frame(DATA, END_STREAM, 3, &[0, 0, 0, 0, 5, 0x0a, 1, b'x', 0x10, 32])).await.unwrap();
        loop {
            let (kind, flags, stream, _) = raw.read().await.unwrap();
            if (kind, flags & END_STREAM, stream) == (HEADERS, END_STREAM, 3) {
                break;
            }
        }
    });
}

/// "CONTINUATION flood" (RUSTSEC-2024-0332): a header block that never ends.
#[test]
fn a_header_block_that_never_ends_ends_the_connection() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        raw.write(&frame(HEADERS, 0, 1, &call(GET_DATA_KEY, &[]))).await.unwrap();
        let more = frame(CONTINUATION, 0, 1, &headers(&[("x-filler", "x".repeat(100).as_str()); 50]));
        let (taken, ended) = raw.flood(&more, 100_000).await;
        assert!(matches!(ended, Err(ConnectionError::Http2(_))), "{ended:?}");
        assert!(taken < 1000, "{taken} frames were taken");
    });
}

/// "HPACK bomb": one large entry in the dynamic table, referred to again and again by a byte each.
#[test]
fn a_header_bomb_is_not_unpacked() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        let mut block = call(GET_DATA_KEY, &[]);
        // Literal with incremental indexing, name "x", a value of 3 900 bytes (prefix 127 + 3 773 in base 128).
        block.extend([0x40, 1, b'x', 0x7f, 0xbd, 0x1d]);
        block.extend([b'y'; 3900]);
        block.extend([0x80 | 0x3e; 12_000]);
        let (first, second) = block.split_at(16_000);
        let bomb = [frame(HEADERS, END_STREAM, 1, first), frame(CONTINUATION, END_HEADERS, 1, second)].concat();
        raw.write(&bomb).await.unwrap();
        match raw.read().await.unwrap() {
            (HEADERS, flags, 1, _) => assert_eq!(flags & END_STREAM, END_STREAM, "refused"),
            (kind, ..) => assert!([RST_STREAM, GOAWAY].contains(&kind)),
        }
        assert!(raw.events.is_empty(), "no handler saw it");
    });
}

/// CVE-2023-44487: calls that are reset as soon as they are made.
#[test]
fn rapid_reset_ends_the_connection() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        let mut burst = Vec::new();
        for stream in (1..20_000).step_by(2) {
            burst.extend(frame(HEADERS, END_HEADERS, stream, &call(GET_DATA_KEY, &[])));
            burst.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
        let mut told = None;
        for chunk in burst.chunks(4096) {
            if raw.write(chunk).await.is_err() {
                break;
            }
        }
        while let Ok((kind, _, _, payload)) = raw.read().await {
            if kind == GOAWAY {
                told = Some(payload[4..8].to_vec());
            }
        }
        assert!(matches!(raw.serving.await, Err(ConnectionError::Http2(_))));
        assert_eq!(told, Some(vec![0, 0, 0, 11]), "ENHANCE_YOUR_CALM");
    });
}

/// RUSTSEC-2026-0258: DATA frames without data, which no window bounds.
#[test]
fn a_flood_of_empty_data_frames_ends_the_connection() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits::default()).await;
        raw.start(1, GET_DATA_KEY, &[]).await;
        let (taken, ended) = raw.flood(&frame(DATA, 0, 1, &[]), 1_000_000).await;
        assert!(matches!(ended, Err(ConnectionError::Http2(_))), "{ended:?}");
        assert!(taken < 50_000, "{taken} frames were taken");
    });
}

#[test]
fn calls_beyond_the_limit_are_refused_one_by_one() {
    latchkey_test_support::block_on(async {
        let mut raw = Raw::open(Limits { concurrent_calls: 2, ..Limits::default() }).await;
        for stream in [1, 3, 5] {
            raw.start(stream, GET_DATA_KEY, &[]).await;
        }
        let (kind, _, stream, reason) = raw.read().await.unwrap();
        assert_eq!((kind, stream, &reason[..]), (RST_STREAM, 5, &[0, 0, 0, 7][..]), "REFUSED_STREAM");
    });
}

/// Answers to pings are not stored for a peer that does not read them: it is not read from any more.
#[test]
fn a_peer_that_pings_and_never_reads_is_held_up() {
    let executor = smol::Executor::new();
    let (mut near, far) = support::pipe::pipe();
    let (peer, _events, _release) = support::peer();
    let server = support::services::server(Limits::default());
    let _serving = executor.spawn(async move { server.serve(far, peer).await });
    let (count, taken) = smol::channel::unbounded();
    let _flood = executor.spawn(async move {
        use smol::io::AsyncWriteExt;
        near.write_all(PREFACE).await.unwrap();
        near.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        while near.write_all(&frame(PING, 0, 0, &[0; 8])).await.is_ok() {
            count.send(()).await.unwrap();
        }
    });
    while executor.try_tick() {}
    assert!(taken.len() < 100_000, "{} pings were taken", taken.len());
}

#[test]
fn a_hostile_connection_leaves_the_others_alone() {
    latchkey_test_support::block_on(async {
        let server = support::services::server(Limits::default());
        let connect = |server: latchkey_api::grpc::Server<support::services::Peer>| {
            let (near, far) = support::pipe::pipe();
            let (peer, ..) = support::peer();
            (near, smol::spawn(async move { server.serve(far, peer).await }))
        };
        let (good, _good_serving) = connect(server.clone());
        let (channel, driver) = Channel::open(good, Limits::default()).await.unwrap();
        let _driver = smol::spawn(driver);
        let keys = v1::KeysClient::new(channel);
        for _ in 0..20 {
            let (mut bad, bad_serving) = connect(server.clone());
            let flood = async {
                use smol::io::AsyncWriteExt;
                let ping = frame(PING, 0, 0, &[0; 8]).repeat(1000);
                let _ = bad.write_all(PREFACE).await;
                let _ = bad.write_all(&frame(SETTINGS, 0, 0, &[])).await;
                let _ = bad.write_all(&frame(HEADERS, END_HEADERS, 1, &call(GET_DATA_KEY, &[]))).await;
                let _ = bad.write_all(&[frame(DATA, 0, 1, &[]).repeat(1000), ping].concat()).await;
                // To the end: whoever leaves first is not hung up on.
                let _ = bad.read_to_end(&mut Vec::new()).await;
            };
            let request = v1::GetDataKeyRequest { key_id: "x".into(), length: 32, version: 0 };
            let (answer, ()) = smol::future::zip(keys.get_data_key(&request, Duration::from_mins(1)), flood).await;
            assert!(answer.is_ok());
            drop(bad);
            assert!(bad_serving.await.is_err());
        }
    });
}

/// An idle peer is told to go; one that stays is hung up on, and that is no failure.
#[test]
fn an_idle_peer_that_does_not_leave_is_hung_up_on() {
    latchkey_test_support::block_on(async {
        let raw = Raw::open(Limits { idle: SHORT, drain: SHORT, ..Limits::default() }).await;
        let serving = raw.serving;
        assert!(serving.await.is_ok());
        drop(raw.stream);
    });
}
