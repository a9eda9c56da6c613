//! Calls between our client and our server.

mod support;

use latchkey_api::{grpc::Limits, v1};
use std::time::Duration;
use support::pair;

const SOON: Duration = Duration::from_secs(20);

fn key(key_id: &str) -> v1::GetDataKeyRequest {
    v1::GetDataKeyRequest { key_id: key_id.into(), length: 32, version: 0 }
}

#[test]
fn a_unary_call_is_answered() {
    smol::block_on(async {
        let pair = pair(Limits::default()).await;
        let keys = v1::KeysClient::new(pair.channel);
        let answer = keys.get_data_key(&key("measurement-secret"), SOON).await.unwrap();
        assert_eq!((answer.data_key.len(), answer.version), (32, 1));
    });
}
