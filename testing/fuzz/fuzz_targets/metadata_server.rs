//! Answers of metadata servers, as far as they have come; and what is read from the bodies.
#![no_main]

use latchkey_agent::platform::metadata::{InstanceMetadata, answer_body, openstack_hostname};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1024;

fuzz_target!(|bytes: &[u8]| {
    let ended = answer_body(bytes, LIMIT, true);
    assert!(!matches!(ended, Ok(None)), "what has ended is whole or refused");
    if let Ok(Some(body)) = answer_body(bytes, LIMIT, false) {
        // What is whole before the end is the same at the end.
        assert_eq!(ended.as_ref().ok().and_then(Option::as_ref), Some(&body));
    }
    let Ok(Some(body)) = ended else { return };
    assert!(body.len() <= LIMIT);
    let _ = (InstanceMetadata::parse(&body), openstack_hostname(&body));
});
