//! DHCP servers that answer what they like, when they like. The input is a list of answers: one byte of seconds that
//! pass, two of length, then the message; the client's transaction and hardware address are put in.
#![no_main]

use std::net::Ipv4Addr;
use std::time::Duration;

use latchkey_agent::platform::net::dhcp::{Action, Client, Lease};
use libfuzzer_sys::fuzz_target;

const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

fn check(lease: &Lease) {
    assert!(lease.prefix <= 32 && lease.name_servers.len() <= 3 && lease.renew <= lease.time);
    assert!(![Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST].contains(&lease.address));
    for name in lease.host_name.iter().chain(&lease.domain) {
        assert!(!name.contains(|c: char| c.is_control() || c.is_whitespace()), "{name:?}");
    }
}

/// What is due now; the transaction of a message that was sent.
fn poll(client: &mut Client, now: Duration) -> Option<[u8; 4]> {
    let mut transaction = None;
    // A client that always has something to do would spin on a real node.
    for _ in 0..8 {
        match client.poll(now) {
            Action::Send(message) => transaction = message.get(4..8).and_then(|xid| xid.try_into().ok()),
            Action::Bound(lease) => check(&lease),
            Action::Wait(until) => {
                assert!(until > now);
                return transaction;
            }
            Action::Lost => return transaction,
        }
    }
    panic!("the client does not rest");
}

fuzz_target!(|input: &[u8]| {
    let mut now = Duration::ZERO;
    let mut client = Client::new(MAC, 7, now);
    let mut transaction = [0; 4];
    let mut rest = input;
    while let Some((&[seconds, high, low], after)) = rest.split_first_chunk::<3>() {
        transaction = poll(&mut client, now).unwrap_or(transaction);
        let length = usize::from(u16::from_be_bytes([high, low]) % 1600).min(after.len());
        let (message, next) = after.split_at(length);
        rest = next;
        now += Duration::from_secs(seconds.into());
        let mut message = message.to_vec();
        if let Some(field) = message.get_mut(4..8) {
            field.copy_from_slice(&transaction);
        }
        if let Some(field) = message.get_mut(28..34) {
            field.copy_from_slice(&MAC);
        }
        let _ = client.receive(&message, now);
    }
    poll(&mut client, now);
});
