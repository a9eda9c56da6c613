//! Latchkey's own client over mutual TLS, as the join service uses it.

use crate::rig::client::{connect, question};
use crate::rig::{JOIN, Rig};
use latchkey_api::grpc::{Channel, Code, Limits};
use latchkey_api::v1::{GetDataKeyRequest, GetDataKeyResponse, KeysClient, RejoinTicket};
use serde_json::json;
use smol::future::FutureExt;
use std::time::{Duration, Instant};

#[test]
fn our_own_client_gets_the_derived_key() {
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let expected = rig.master.measurement_secret(rig.master.current()).unwrap();
    latchkey_test_support::block_on(async {
        let stream = connect(service.address(), &rig.servers.certificate(), &join).await.unwrap();
        let (channel, driver) = Channel::open(stream, Limits::default()).await.unwrap();
        let calls = async {
            let client = KeysClient::new(channel);
            let mut answer = client.get_data_key(&question(), Duration::from_mins(1)).await.unwrap();
            assert_eq!(answer.take_data_key().as_slice(), expected.expose());
            let wrong = GetDataKeyRequest { length: 8, ..question() };
            let status = client.get_data_key(&wrong, Duration::from_mins(1)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
        };
        let connection = async {
            panic!("the connection ended: {:?}", driver.await);
        };
        calls.or(connection).await;
    });
}

/// A connection that rests must not use up the time that calls get to finish.
#[test]
fn sigterm_closes_resting_connections_at_once() {
    let mut rig = Rig::new();
    rig.config["limits"] = json!({ "shutdown_seconds": 300 });
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    latchkey_test_support::block_on(async {
        let stream = connect(service.address(), &rig.servers.certificate(), &join).await.unwrap();
        let (channel, driver) = Channel::open(stream, Limits::default()).await.unwrap();
        let stopping = async {
            let client = KeysClient::new(channel);
            client.get_data_key(&question(), Duration::from_mins(1)).await.unwrap();
            let begun = Instant::now();
            let (status, log) = smol::unblock(|| service.stop()).await;
            assert!(status.success(), "{log}");
            assert!(begun.elapsed() < Duration::from_mins(1), "the resting connection was waited for");
        };
        let connection = async {
            // The service says goodbye while the other future waits for its process.
            let _ended = driver.await;
            std::future::pending::<()>().await;
        };
        stopping.or(connection).await;
    });
}

/// A certificate's names are what its authority let pass; a call's path is what the peer likes.
#[test]
fn neither_a_callers_name_nor_an_undecodable_call_forges_a_line_and_both_are_audited() {
    let hostile = "spiffe://latchkey.test/\"outcome=\"granted\"\\n";
    for format in ["text", "json"] {
        let rig = Rig::new();
        let mut command = rig.command();
        command.args(["--log", format]);
        let service = Rig::start_by(command);
        let caller = rig.client("hostile", &[hostile]);
        latchkey_test_support::block_on(async {
            let stream = connect(service.address(), &rig.servers.certificate(), &caller).await.unwrap();
            let (channel, driver) = Channel::open(stream, Limits::default()).await.unwrap();
            let calls = async {
                let client = KeysClient::new(channel.clone());
                let status = client.get_data_key(&question(), Duration::from_mins(1)).await.unwrap_err();
                assert_eq!(status.code(), Code::PermissionDenied);
                // Field 1 of the question is a string of UTF-8; here it is not.
                let garbled = RejoinTicket {
                    state_disk_key: vec![0xff],
                    measurement_secret: Vec::new(),
                    epoch: 0,
                    components: None,
                };
                let path = "/latchkey.v1.Keys/GetDataKey";
                let answer = channel.unary::<_, GetDataKeyResponse>(path, &garbled, Some(Duration::from_mins(1))).await;
                assert_eq!(answer.unwrap_err().code(), Code::Internal);
            };
            let connection = async {
                panic!("the connection ended: {:?}", driver.await);
            };
            calls.or(connection).await;
        });
        let (_, log) = service.stop();
        let audit: Vec<&str> = log.lines().filter(|line| line.contains("audit")).collect();
        let [refused, undecodable] = *audit else { panic!("two calls, other lines:\n{log}") };
        let name = format!("unknown({hostile:?})");
        if format == "text" {
            assert!(refused.contains(&format!(" caller={name:?} ")), "{refused}");
            assert_eq!(refused.replace(&format!("{name:?}"), "").matches(" outcome=").count(), 1, "{refused}");
            assert!(
                undecodable.contains("outcome=\"INTERNAL\"") && undecodable.contains("/GetDataKey"),
                "{undecodable}"
            );
        } else {
            for (line, outcome) in [(refused, "unknown-caller"), (undecodable, "INTERNAL")] {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!((&line["fields"]["caller"], &line["fields"]["outcome"]), (&json!(name), &json!(outcome)));
            }
        }
    }
}
