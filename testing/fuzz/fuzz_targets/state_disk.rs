//! Whatever is on a disk: nothing that has a byte of somebody's data may be called fresh. The first byte says whether the
//! checksum of a reset marker is made right.
#![no_main]

use latchkey_disk::{Probe, probe};
use libfuzzer_sys::fuzz_target;
use ring::digest::{SHA256, digest};

#[path = "support/memory_disk.rs"]
mod memory_disk;

use memory_disk::MemoryDisk;

const MARKER: &[u8] = b"LATCHKEY-MARKER\0";

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let mut content = content.to_vec();
    if choice & 1 != 0 && content.len() >= 512 {
        let sum = digest(&SHA256, &content[..480]);
        content[480..512].copy_from_slice(sum.as_ref());
    }
    let blank = content.iter().all(|&byte| byte == 0);
    let marked = content.starts_with(MARKER);
    match probe(&MemoryDisk(content)).expect("memory does not fail") {
        Probe::Fresh(fresh) => {
            assert!(blank || marked, "somebody's data is called fresh");
            assert!(fresh.reset_marker().is_none_or(|marker| marker.reason.as_str().len() <= 64));
        }
        Probe::Existing(header) => drop(header.check_either_mode()),
        Probe::Refused(refusal) => assert!(!refusal.to_string().is_empty()),
    }
});
