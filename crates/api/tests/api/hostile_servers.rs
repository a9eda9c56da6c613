//! Servers that break the protocol, answer strangely, or not at all: what the caller is told.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use latchkey_api::{
    grpc::{Channel, Code, ConnectionError, Keepalive, Limits, Status},
    v1,
};
use smol::{
    Task,
    io::{AsyncReadExt, AsyncWriteExt},
};
use std::{future::Future, time::Duration};

const SOON: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(50);

fn request(key_id: String) -> v1::GetDataKeyRequest {
    v1::GetDataKeyRequest { key_id, length: 32, version: 0 }
}

/// What a call is told by a server that answers it with `behaviour`.
async fn told<F>(
    key_id: String,
    behaviour: impl Fn(RecvStream, SendResponse<Bytes>) -> F + Send + 'static,
) -> Result<v1::GetDataKeyResponse, Status>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (near, far) = support::pipe::pipe();
    let _server = smol::spawn(async move {
        let mut connection = h2::server::handshake(support::pipe::Tokio(far)).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            smol::spawn(behaviour(request.into_body(), respond)).detach();
        }
    });
    let (channel, driver) = Channel::open(near, Limits::default()).await.unwrap();
    let _driver = smol::spawn(driver);
    v1::KeysClient::new(channel).get_data_key(&request(key_id), SOON).await
}

fn head(fields: &[(&'static str, &'static str)]) -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    for (name, value) in fields {
        response.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    response
}

/// Answers with this body and these trailers.
async fn told_of(body: &'static [u8], trailers: &'static [(&'static str, &'static str)]) -> Result<u32, Status> {
    let answer = told("x".into(), move |_request, mut respond| async move {
        let mut stream = respond.send_response(head(&[]), false).unwrap();
        stream.send_data(Bytes::from_static(body), false).unwrap();
        let trailers: HeaderMap = head(trailers).headers().clone();
        stream.send_trailers(trailers).unwrap();
    });
    answer.await.map(|answer| answer.version)
}

const OK: &[(&str, &str)] = &[("grpc-status", "0")];

#[test]
fn a_well_behaved_answer_is_understood() {
    latchkey_test_support::block_on(async { assert_eq!(told_of(&[0, 0, 0, 0, 2, 0x10, 9], OK).await, Ok(9)) });
}

/// The reference's bug: a status, then `RST_STREAM(NO_ERROR)`, before the request's body is out.
#[test]
fn a_status_that_comes_before_the_request_is_sent_is_heard() {
    latchkey_test_support::block_on(async {
        for _ in 0..20 {
            let answer = told("x".repeat(1 << 20), |request, mut respond| async move {
                let refusal = head(&[("grpc-status", "7"), ("grpc-message", "not%20you")]);
                respond.send_response(refusal, true).unwrap();
                // h2 follows with RST_STREAM(NO_ERROR), since nobody will read the rest.
                drop(request);
            });
            assert_eq!(answer.await.unwrap_err(), Status::permission_denied("not you"));
        }
    });
}

#[test]
fn an_answer_without_status_is_no_success() {
    latchkey_test_support::block_on(async {
        let whole = &[0, 0, 0, 0, 2, 0x10, 9];
        assert_eq!(told_of(whole, &[]).await.unwrap_err().code(), Code::Unknown);
        assert_eq!(told_of(whole, &[("grpc-status", "five")]).await.unwrap_err().code(), Code::Unknown);
        assert_eq!(told_of(whole, &[("grpc-status", "5")]).await.unwrap_err().code(), Code::NotFound);
        let silent = told("x".into(), |_, mut respond| async move {
            respond.send_response(head(&[]), true).unwrap();
        });
        assert_eq!(silent.await.unwrap_err().code(), Code::Unknown);
    });
}

#[test]
fn broken_answers_get_the_code_of_the_specification() {
    latchkey_test_support::block_on(async {
        let bodies: [(&[u8], Code); 6] = [
            (&[1, 0, 0, 0, 1, 0], Code::Internal),
            (&[0, 0xff, 0xff, 0xff, 0xff], Code::ResourceExhausted),
            (&[0, 0, 0, 0, 9, 1], Code::Internal),
            (&[], Code::Unimplemented),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Code::Unimplemented),
            (&[0, 0, 0, 0, 2, 0x0a, 0xff], Code::Internal),
        ];
        for (body, expected) in bodies {
            assert_eq!(told_of(body, OK).await.unwrap_err().code(), expected, "{body:?}");
        }
    });
}

#[test]
fn answers_that_are_not_grpc_are_mapped() {
    latchkey_test_support::block_on(async {
        let expected = [(401, Code::Unauthenticated), (404, Code::Unimplemented), (503, Code::Unavailable)];
        for (http, code) in expected {
            let answer = told("x".into(), move |_, mut respond| async move {
                let mut response = head(&[]);
                *response.status_mut() = http::StatusCode::from_u16(http).unwrap();
                respond.send_response(response, true).unwrap();
            });
            assert_eq!(answer.await.unwrap_err().code(), code);
        }
        let html = told("x".into(), |_, mut respond| async move {
            respond.send_response(Response::new(()), true).unwrap();
        });
        assert_eq!(html.await.unwrap_err().code(), Code::Unknown);
        let packed = told("x".into(), |_, mut respond| async move {
            let mut stream = respond.send_response(head(&[("grpc-encoding", "gzip")]), false).unwrap();
            stream.send_data(Bytes::new(), true).unwrap();
        });
        assert_eq!(packed.await.unwrap_err().code(), Code::Internal);
    });
}

#[test]
fn resets_are_mapped() {
    latchkey_test_support::block_on(async {
        let expected = [
            (h2::Reason::REFUSED_STREAM, Code::Unavailable),
            (h2::Reason::CANCEL, Code::Cancelled),
            (h2::Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
            (h2::Reason::INTERNAL_ERROR, Code::Internal),
        ];
        for (reason, code) in expected {
            let answer = told("x".into(), move |_, mut respond| async move { respond.send_reset(reason) });
            assert_eq!(answer.await.unwrap_err().code(), code);
        }
    });
}

/// A far end that reads everything and never says a word, until the channel hangs up.
async fn silent(limits: Limits) -> (Channel, Task<Result<(), ConnectionError>>) {
    let (near, mut far) = support::pipe::pipe();
    smol::spawn(async move { while far.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {} }).detach();
    let (channel, driver) = Channel::open(near, limits).await.unwrap();
    (channel, smol::spawn(driver))
}

#[test]
fn a_silent_server_costs_no_more_than_the_deadline() {
    latchkey_test_support::block_on(async {
        let (channel, _driver) = silent(Limits::default()).await;
        let answer = v1::KeysClient::new(channel).get_data_key(&request("x".into()), SHORT).await;
        assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded);
    });
}

#[test]
fn a_silent_server_is_noticed_by_pings() {
    latchkey_test_support::block_on(async {
        let keepalive = Some(Keepalive { interval: SHORT, timeout: SHORT });
        let (channel, driver) = silent(Limits { keepalive, ..Limits::default() }).await;
        let answer = v1::KeysClient::new(channel).get_data_key(&request("x".into()), None).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
        assert!(matches!(driver.await, Err(ConnectionError::Unresponsive(limit)) if limit == SHORT));
    });
}

#[test]
fn garbage_instead_of_http2_is_unavailable() {
    latchkey_test_support::block_on(async {
        let (near, mut far) = support::pipe::pipe();
        far.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        let (channel, driver) = Channel::open(near, Limits::default()).await.unwrap();
        let driver = smol::spawn(driver);
        let answer = v1::KeysClient::new(channel).get_data_key(&request("x".into()), SOON).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
        assert!(matches!(driver.await, Err(ConnectionError::Http2(_))));
        drop(far);
    });
}

#[test]
fn a_server_that_says_goaway_is_unavailable_for_new_calls() {
    latchkey_test_support::block_on(async {
        let (near, far) = support::pipe::pipe();
        let _server = smol::spawn(async move {
            let mut connection = h2::server::handshake(support::pipe::Tokio(far)).await.unwrap();
            connection.abrupt_shutdown(h2::Reason::NO_ERROR);
            while connection.accept().await.is_some() {}
        });
        let (channel, driver) = Channel::open(near, Limits::default()).await.unwrap();
        let _ = smol::spawn(driver).await;
        let answer = v1::KeysClient::new(channel).get_data_key(&request("x".into()), SOON).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
    });
}
