//! Messages on a netlink socket: the kernel's, or those of whoever may send to it.
#![no_main]

use latchkey_agent::platform::net::message::{AddressInfo, LinkInfo, advertised_name_servers, error_number, messages};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(messages) = messages(bytes) else { return };
    for message in messages {
        drop(LinkInfo::parse(message.body));
        drop(AddressInfo::parse(message.body));
        let _ = error_number(message.body);
        if let Ok((_, servers)) = advertised_name_servers(message.body) {
            assert!(servers.len() * 16 <= message.body.len());
        }
    }
});
