//! Calls between our client and our server: what callers and handlers are promised.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use crate::support::{pair, pair_with};
use latchkey_api::{
    grpc::{Channel, Code, ConnectionError, Limits, Streaming},
    v1::{self, init_event::Event},
};
use std::time::Duration;

const SOON: Duration = Duration::from_mins(1);
/// Passes in a test: long enough for the first steps of a call on a busy machine.
const WHILE: Duration = Duration::from_secs(3);
const SHORT: Duration = Duration::from_millis(30);

fn key(key_id: &str) -> v1::GetDataKeyRequest {
    v1::GetDataKeyRequest { key_id: key_id.into(), length: 32, version: 0 }
}

fn init(cluster_name: &str) -> v1::InitRequest {
    v1::InitRequest {
        cluster_name: cluster_name.into(),
        disk_uuid: String::new(),
        state_disk_key: vec![6; 32],
        measurement_secret: vec![7; 32],
        measurement_salt: vec![8; 32],
        invitation: Vec::new(),
        settings: None,
        control_plane_files: None,
    }
}

async fn count(events: &mut Streaming<v1::InitEvent>) -> (u64, Option<Code>) {
    for expected in 0.. {
        match events.message().await {
            Ok(Some(v1::InitEvent { event: Some(Event::Progress(progress)) })) => {
                assert_eq!(progress.elapsed_ms, expected, "in order");
            }
            Ok(None) => return (expected, None),
            Err(status) => return (expected, Some(status.code())),
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

#[test]
fn a_unary_call_is_answered() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let answer = keys.get_data_key(&key("measurement-secret"), SOON).await.unwrap();
        assert_eq!((answer.data_key.len(), answer.version), (32, 1));
    });
}

#[test]
fn a_failure_carries_code_and_message() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let status = keys.get_data_key(&key(""), SOON).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "key_id is empty: name the key, e.g. „measurement-secret“ (100%)");
    });
}

#[test]
fn handlers_know_whose_connection_it_is() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let status = keys.get_data_key(&key("not mine"), None).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "not for test"));
    });
}

#[test]
fn unknown_services_and_methods_are_unimplemented() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        for path in ["/latchkey.v1.Keys/Nothing", "/latchkey.v1.Nothing/GetDataKey", "/latchkey.v1.Keys", "/", "//"] {
            let answer = pair.channel.unary::<_, v1::GetDataKeyResponse>(path, &key("x"), Some(SOON)).await;
            assert_eq!(answer.unwrap_err().code(), Code::Unimplemented, "{path}");
        }
    });
}

#[test]
fn a_stream_comes_in_order_and_ends() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let mut events = v1::InitClient::new(pair.channel).init(&init("1000"), SOON).await.unwrap();
        assert_eq!(count(&mut events).await, (1000, None));
        assert_eq!(events.message().await.unwrap(), None, "the end stays the end");
    });
}

#[test]
fn an_empty_stream_ends_with_success() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let mut events = v1::InitClient::new(pair.channel).init(&init("0"), SOON).await.unwrap();
        assert_eq!(count(&mut events).await, (0, None));
    });
}

#[test]
fn a_stream_that_fails_delivers_what_came_before() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let client = v1::InitClient::new(pair.channel);
        let mut events = client.init(&init("3 fails"), SOON).await.unwrap();
        assert_eq!(count(&mut events).await, (3, Some(Code::Aborted)));
        assert_eq!(events.message().await.unwrap_err().message(), "the disk went away");
        let refused = client.init(&init("many"), SOON).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    });
}

#[test]
fn dropping_a_stream_cancels_its_handler() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let mut events = v1::InitClient::new(pair.channel.clone()).init(&init("1 hangs"), None).await.unwrap();
        assert!(events.message().await.unwrap().is_some());
        drop(events);
        while pair.events.recv().await.unwrap() != "dropped" {}
    });
}

#[test]
fn a_lost_connection_cancels_its_handlers_and_fails_its_calls() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let (never, wait) = (key("never"), key("wait"));
        let calls = smol::future::zip(keys.get_data_key(&never, None), keys.get_data_key(&wait, None));
        let cut = async {
            assert_eq!(pair.events.recv().await.unwrap(), "started");
            assert_eq!(pair.events.recv().await.unwrap(), "started");
            pair.driver.cancel().await;
        };
        let ((never, wait), ()) = smol::future::zip(calls, cut).await;
        assert_eq!(never.unwrap_err().code(), Code::Unavailable);
        assert_eq!(wait.unwrap_err().code(), Code::Unavailable);
        assert_eq!(pair.events.recv().await.unwrap(), "dropped");
        let late = keys.get_data_key(&key("x"), SOON).await.unwrap_err();
        assert_eq!(late.code(), Code::Unavailable);
        let _ = pair.serving.await;
    });
}

#[test]
fn the_callers_deadline_ends_the_call_on_both_sides() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let mut events = v1::InitClient::new(pair.channel).init(&init("1 hangs"), WHILE).await.unwrap();
        assert!(events.message().await.unwrap().is_some(), "the handler runs");
        assert_eq!(events.message().await.unwrap_err().code(), Code::DeadlineExceeded);
        while pair.events.recv().await.unwrap() != "dropped" {}
    });
}

#[test]
fn a_stream_that_never_pauses_does_not_outrun_its_deadline() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let mut events = v1::InitClient::new(pair.channel).init(&init("1000000000"), WHILE).await.unwrap();
        assert_eq!(count(&mut events).await.1, Some(Code::DeadlineExceeded));
    });
}

#[test]
fn the_server_bounds_calls_of_callers_who_set_no_deadline() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits { call: Some(SHORT), ..Limits::default() }).await;
        let keys = v1::KeysClient::new(pair.channel);
        let status = keys.get_data_key(&key("never"), None).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "the deadline passed"));
    });
}

#[test]
fn a_handler_that_panics_fails_its_own_call_only() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        assert_eq!(keys.get_data_key(&key("panic"), SOON).await.unwrap_err().code(), Code::Internal);
        assert!(keys.get_data_key(&key("x"), SOON).await.is_ok());
    });
}

#[test]
fn large_messages_pass_flow_control_both_ways() {
    latchkey_test_support::block_on(async {
        let limits = Limits { inbound_message: 8 << 20, outbound_message: 8 << 20, ..Limits::default() };
        let pair = pair(limits).await;
        let request = v1::AttachRequest { init_secret: vec![3; 3 << 20], cluster_id: vec![4; 32] };
        let mut events = v1::InitClient::new(pair.channel).attach(&request, SOON).await.unwrap();
        let Some(Event::Succeeded(mut succeeded)) = events.message().await.unwrap().unwrap().event else { panic!() };
        assert_eq!(succeeded.take_admin_config().len(), 3 << 20);
        assert_eq!(events.message().await.unwrap(), None);
    });
}

#[test]
fn messages_above_the_limits_are_refused_wherever_they_are_noticed() {
    latchkey_test_support::block_on(async {
        let small = Limits { inbound_message: 100, outbound_message: 100, ..Limits::default() };
        let long = |length| v1::GetDataKeyRequest { length, ..key("x") };
        for (server, client) in [(small, Limits::default()), (Limits::default(), small)] {
            let pair = pair_with(server, client).await;
            let keys = v1::KeysClient::new(pair.channel);
            // Reply: above the server's outbound, or the client's inbound limit.
            assert_eq!(keys.get_data_key(&long(200), SOON).await.unwrap_err().code(), Code::ResourceExhausted);
            // Request: above the client's outbound, or the server's inbound limit.
            let request = key(&"x".repeat(200));
            assert_eq!(keys.get_data_key(&request, SOON).await.unwrap_err().code(), Code::ResourceExhausted);
            assert!(keys.get_data_key(&long(32), SOON).await.is_ok(), "the connection lives on");
        }
    });
}

#[test]
fn parallel_calls_beyond_the_concurrency_limit_all_end_well() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits { concurrent_calls: 8, ..Limits::default() }).await;
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let keys = v1::KeysClient::new(pair.channel.clone());
                smol::spawn(async move { keys.get_data_key(&key("x"), SOON).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap().data_key.len(), 32);
        }
    });
}

#[test]
fn a_stopping_server_finishes_open_calls_and_takes_no_new_ones() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let wait = key("wait");
        let open = keys.get_data_key(&wait, SOON);
        let stop = async {
            assert_eq!(pair.events.recv().await.unwrap(), "started");
            drop(pair.stop);
            // Refused either by the server or, once GOAWAY has arrived, by the channel.
            while keys.get_data_key(&key("x"), SOON).await.is_ok() {}
            pair.release.send(()).await.unwrap();
        };
        let (open, ()) = smol::future::zip(open, stop).await;
        assert_eq!(open.unwrap().data_key.len(), 16);
        pair.serving.await.unwrap();
        let _ = pair.driver.await;
    });
}

#[test]
fn a_stopping_server_does_not_wait_for_ever() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits { drain: SHORT, ..Limits::default() }).await;
        let keys = v1::KeysClient::new(pair.channel);
        let never = key("never");
        let stop = async {
            assert_eq!(pair.events.recv().await.unwrap(), "started");
            drop(pair.stop);
        };
        let (call, ()) = smol::future::zip(keys.get_data_key(&never, None), stop).await;
        assert_eq!(call.unwrap_err().code(), Code::Unavailable);
        assert!(matches!(pair.serving.await, Err(ConnectionError::Drain(limit)) if limit == SHORT));
        assert_eq!(pair.events.recv().await.unwrap(), "dropped");
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    latchkey_test_support::block_on(async {
        let pair = pair(Limits { idle: WHILE, ..Limits::default() }).await;
        let busy = v1::InitClient::new(pair.channel.clone()).init(&init("0 hangs"), WHILE * 2).await.unwrap_err();
        assert_eq!(busy.code(), Code::DeadlineExceeded, "a busy connection outlives the idle limit");
        pair.serving.await.unwrap();
        let _ = pair.driver.await;
        let late = v1::KeysClient::new(pair.channel).get_data_key(&key("x"), SOON).await.unwrap_err();
        assert_eq!(late.code(), Code::Unavailable);
    });
}

/// Everything runs on one executor of the test's own, so that "nothing moves any more" is a fact and not a guess.
#[test]
fn a_stream_nobody_reads_does_not_run_ahead() {
    const EVENTS: u64 = 1_000_000;
    let executor = smol::Executor::new();
    let (near, far) = support::pipe::pipe();
    let (peer, sent, _release) = support::peer();
    let server = support::services::server(Limits::default());
    let _serving = executor.spawn(async move { server.serve(far, peer).await });
    let (channel, driver) = latchkey_test_support::block_on(Channel::open(near, Limits::default())).unwrap();
    let _driver = executor.spawn(driver);
    let unread = executor.spawn(async move { v1::InitClient::new(channel).init(&init("1000000"), None).await });
    while executor.try_tick() {}
    let ahead = sent.len() as u64;
    assert!((1_000..EVENTS / 10).contains(&ahead), "{ahead} events were sent to a caller who read none");
    drop(unread);
}
