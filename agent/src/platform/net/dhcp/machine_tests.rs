use proptest::prelude::*;

use super::super::packet::tests::{MAC, reply};
use super::*;

const ADDRESS: [u8; 4] = [10, 0, 2, 15];
const OFFER: u8 = 2;
const ACK: u8 = 5;
const NAK: u8 = 6;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn xid(request: &[u8]) -> u32 {
    u32::from_be_bytes(request[4..8].try_into().unwrap())
}

fn message_type(request: &[u8]) -> u8 {
    request[242]
}

fn sent(action: Action) -> Vec<u8> {
    match action {
        Action::Send(bytes) => bytes,
        action => panic!("{action:?}"),
    }
}

/// A client that has an offer, with its request.
fn requesting(now: Duration) -> (Client, Vec<u8>) {
    let mut client = Client::new(MAC, 1, now);
    let discover = sent(client.poll(now));
    assert_eq!(message_type(&discover), 1);
    client.receive(&reply(OFFER, xid(&discover), ADDRESS, &[]), now).unwrap();
    let request = sent(client.poll(now));
    assert_eq!(message_type(&request), 3);
    (client, request)
}

fn bound(now: Duration) -> Client {
    let (mut client, request) = requesting(now);
    client.receive(&reply(ACK, xid(&request), ADDRESS, &[]), now).unwrap();
    assert!(matches!(client.poll(now), Action::Bound(lease) if lease.address.octets() == ADDRESS));
    client
}

#[test]
fn an_address_is_had_in_four_messages_without_waiting() {
    let mut client = bound(secs(5));
    assert_eq!(client.poll(secs(6)), Action::Wait(secs(5 + 43_200)), "then it rests until T1");
}

#[test]
fn a_silent_network_is_asked_again_with_jittered_doubling_waits() {
    let mut client = Client::new(MAC, 7, Duration::ZERO);
    let (mut now, mut waits) = (Duration::ZERO, Vec::new());
    let first = xid(&sent(client.poll(now)));
    for _ in 0..8 {
        let Action::Wait(until) = client.poll(now) else { panic!("a second message at once") };
        waits.push(until.saturating_sub(now));
        now = until;
        assert_eq!(xid(&sent(client.poll(now))), first, "a retransmission keeps its number");
    }
    for (wait, nominal) in waits.iter().zip([1, 2, 4, 8, 16, 16, 16, 16].map(secs)) {
        assert!(*wait >= nominal * 3 / 4 && *wait <= nominal * 5 / 4, "{waits:?}");
    }
    assert!(waits[5] != waits[6], "jitter");
}

#[test]
fn an_offer_that_nobody_stands_by_is_given_up_for_a_new_transaction() {
    let (mut client, request) = requesting(Duration::ZERO);
    let mut now = Duration::ZERO;
    loop {
        match client.poll(now) {
            Action::Wait(until) => now = until,
            Action::Send(bytes) if message_type(&bytes) == 1 => {
                assert_ne!(xid(&bytes), xid(&request));
                return;
            }
            Action::Send(_) => assert!(now < secs(60)),
            action => panic!("{action:?}"),
        }
    }
}

#[test]
fn a_server_that_refuses_its_own_offers_can_not_make_the_client_spin() {
    let mut client = Client::new(MAC, 3, Duration::ZERO);
    let (mut now, mut messages) = (Duration::ZERO, 0);
    while now < secs(120) {
        match client.poll(now) {
            Action::Wait(until) => now = until,
            Action::Send(bytes) => {
                messages += 1;
                let kind = if message_type(&bytes) == 1 { OFFER } else { NAK };
                client.receive(&reply(kind, xid(&bytes), ADDRESS, &[]), now).unwrap();
            }
            action => panic!("{action:?}"),
        }
    }
    assert!(messages < 40, "{messages} messages in two minutes");
}

#[test]
fn an_acknowledgement_of_something_else_is_ignored() {
    let (mut client, request) = requesting(Duration::ZERO);
    let xid = xid(&request);
    for packet in [
        reply(ACK, xid, [10, 0, 2, 99], &[]),
        reply(ACK, xid, ADDRESS, &[(54, &[10, 0, 2, 66])]),
        reply(ACK, xid ^ 1, ADDRESS, &[]),
        reply(OFFER, xid, ADDRESS, &[]),
        reply(NAK, xid, [0; 4], &[(54, &[10, 0, 2, 66])]),
    ] {
        client.receive(&packet, Duration::ZERO).unwrap_err();
    }
    client.receive(&reply(ACK, xid, ADDRESS, &[]), Duration::ZERO).unwrap();
}

#[test]
fn an_unasked_acknowledgement_or_offer_is_ignored() {
    let mut client = Client::new(MAC, 1, Duration::ZERO);
    let guess = client.xid;
    client.receive(&reply(OFFER, guess, ADDRESS, &[]), Duration::ZERO).unwrap_err();
    client.receive(&reply(ACK, guess, ADDRESS, &[]), Duration::ZERO).unwrap_err();
}

#[test]
fn a_lease_is_renewed_at_half_its_time_and_lost_at_its_end() {
    let mut client = bound(Duration::ZERO);
    let renew = sent(client.poll(secs(43_200)));
    assert_eq!((message_type(&renew), &renew[12..16]), (3, &ADDRESS[..]));
    client.receive(&reply(ACK, xid(&renew), ADDRESS, &[]), secs(43_201)).unwrap();
    assert!(matches!(client.poll(secs(43_201)), Action::Bound(_)));
    assert!(matches!(client.poll(secs(43_202)), Action::Wait(_)));
    // Now the server is silent.
    let mut now = secs(43_202);
    loop {
        match client.poll(now) {
            Action::Wait(until) => now = until.max(now + secs(600)),
            Action::Send(bytes) => assert_eq!(message_type(&bytes), 3),
            Action::Lost => break,
            action @ Action::Bound(_) => panic!("{action:?}"),
        }
    }
    assert!((secs(129_600)..secs(131_000)).contains(&now), "{now:?}");
}

#[test]
fn only_its_own_server_can_take_an_address_away() {
    let mut client = bound(Duration::ZERO);
    let renew = sent(client.poll(secs(43_200)));
    let stranger = reply(NAK, xid(&renew), [0; 4], &[(54, &[10, 0, 2, 66])]);
    client.receive(&stranger, secs(43_200)).unwrap_err();
    client.receive(&reply(NAK, xid(&renew), [0; 4], &[]), secs(43_200)).unwrap();
    assert_eq!(client.poll(secs(43_200)), Action::Lost);
}

proptest! {
    /// Any mix of answers, losses and waits: it never panics, never waits for the past, never sends twice at a time.
    #[test]
    fn a_hostile_network_gets_bounded_traffic(seed in any::<u64>(), answers in proptest::collection::vec((0u8..8, 1u64..40_000), 1..60)) {
        let mut client = Client::new(MAC, seed, Duration::ZERO);
        let (mut now, mut last) = (Duration::ZERO, 0);
        for (kind, pause) in answers {
            let mut sends = 0;
            loop {
                match client.poll(now) {
                    Action::Send(bytes) => { last = xid(&bytes); sends += 1; }
                    Action::Wait(until) => { prop_assert!(until > now); break }
                    Action::Lost => break,
                    Action::Bound(lease) => prop_assert_eq!(lease.address, std::net::Ipv4Addr::from(ADDRESS)),
                }
                prop_assert!(sends <= 2);
            }
            let _ = client.receive(&reply(kind, last, ADDRESS, &[]), now);
            now += Duration::from_millis(pause);
        }
    }
}
