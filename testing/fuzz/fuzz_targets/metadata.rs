//! Instance metadata: a `fw_cfg` file, or an SMBIOS table with the same JSON in a string. Nothing of it is measured.
#![no_main]

use latchkey_agent::platform::metadata::{InstanceMetadata, MAX_PEERS, oem_string};
use libfuzzer_sys::fuzz_target;

fn check(json: &[u8]) {
    if let Ok(metadata) = InstanceMetadata::parse(json) {
        assert!(metadata.peers.len() <= MAX_PEERS);
        assert!(metadata.node_name.is_none_or(|name| (1..=63).contains(&name.len())));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Ok(Some(json)) = oem_string(bytes) {
        assert!(!json.contains(&0));
        check(json);
    }
});
