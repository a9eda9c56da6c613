//! A frame of the handshake as a peer sends it. A message that is read and written again is the same.
#![no_main]

use latchkey_channel::frame::{Slot, announced_len, decode, encode};
use libfuzzer_sys::fuzz_target;

const SLOTS: [Slot; 5] = [Slot::Hello, Slot::Challenge, Slot::Proof, Slot::ServerVerdict, Slot::ClientVerdict];

fuzz_target!(|frame: &[u8]| {
    let Some((header, json)) = frame.split_first_chunk::<4>() else { return };
    for slot in SLOTS {
        assert!(announced_len(*header, slot).map_or(true, |length| length <= slot.limit()));
    }
    match decode(json) {
        Ok(message) => {
            let written = encode(&message).expect("a message that was read");
            let again = decode(&written[4..]).expect("a message that was written");
            assert_eq!(encode(&again), Ok(written));
        }
        Err(fault) => assert!(!fault.to_string().contains(char::is_control), "a peer writes to our log"),
    }
});
