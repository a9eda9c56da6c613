//! Every message of the contracts, as a peer sends it; the first byte chooses. Printing one shows no secret, and what is
//! read, written and read again is the same.
#![no_main]

use std::fmt::Debug;

use latchkey_api::v1;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fn check<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else { return };
    let written = message.encode_to_vec();
    let again = M::decode(written.as_slice()).expect("a message that was written");
    assert_eq!(again.encode_to_vec(), written);
    assert!(!format!("{message:?}").is_empty());
}

const CHECKS: &[fn(&[u8])] = &[
    check::<v1::DescribeRequest>,
    check::<v1::DescribeResponse>,
    check::<v1::InitRequest>,
    check::<v1::ClusterSettings>,
    check::<v1::AttachRequest>,
    check::<v1::InitEvent>,
    check::<v1::RecoverRequest>,
    check::<v1::RecoverResponse>,
    check::<v1::JoinRequest>,
    check::<v1::JoinTicket>,
    check::<v1::ClusterJoin>,
    check::<v1::RejoinRequest>,
    check::<v1::RejoinTicket>,
    check::<v1::ReportRequest>,
    check::<v1::ReportResponse>,
    check::<v1::GetDataKeyRequest>,
    check::<v1::GetDataKeyResponse>,
    check::<v1::EnrolRequest>,
    check::<v1::EnrolResponse>,
];

fuzz_target!(|input: &[u8]| {
    if let Some((&choice, bytes)) = input.split_first() {
        CHECKS[usize::from(choice) % CHECKS.len()](bytes);
    }
});
