use proptest::prelude::*;

use super::*;

pub(in super::super) const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
pub(in super::super) const XID: u32 = 0x1234_5678;

/// A server's reply; options that are given replace the usual ones, an empty value removes it.
pub(in super::super) fn reply(kind: u8, xid: u32, address: [u8; 4], other: &[(u8, &[u8])]) -> Vec<u8> {
    let usual: [(u8, &[u8]); 6] = [
        (option::MESSAGE_TYPE, &[kind]),
        (option::SERVER, &[10, 0, 2, 2]),
        (option::MASK, &[255, 255, 255, 0]),
        (option::ROUTERS, &[10, 0, 2, 2]),
        (option::NAME_SERVERS, &[10, 0, 2, 3]),
        (option::LEASE_TIME, &[0, 1, 0x51, 0x80]),
    ];
    let mut bytes = vec![BOOT_REPLY, ETHERNET, 6, 0];
    bytes.extend(xid.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(address);
    bytes.resize(28, 0);
    bytes.extend(MAC);
    bytes.resize(236, 0);
    bytes.extend(COOKIE);
    let kept = usual.iter().filter(|(code, _)| other.iter().all(|(given, _)| given != code));
    for (code, value) in kept.chain(other.iter().filter(|(_, value)| !value.is_empty())) {
        bytes.extend([*code, u8::try_from(value.len()).unwrap()]);
        bytes.extend(*value);
    }
    bytes.push(option::END);
    bytes
}

fn offer(other: &[(u8, &[u8])]) -> Result<Lease, &'static str> {
    match decode(&reply(2, XID, [10, 0, 2, 15], other), XID, MAC)? {
        Reply::Offer(lease) => Ok(lease),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn an_ordinary_offer_is_read() {
    let lease = offer(&[(option::HOST_NAME, b"node-1"), (option::DOMAIN, b"example.org\0")]).unwrap();
    let expected = Lease {
        address: [10, 0, 2, 15].into(),
        prefix: 24,
        router: Some([10, 0, 2, 2].into()),
        name_servers: vec![[10, 0, 2, 3].into()],
        host_name: Some("node-1".into()),
        domain: Some("example.org".into()),
        server: [10, 0, 2, 2].into(),
        time: Duration::from_hours(24),
        renew: Duration::from_hours(12),
    };
    assert_eq!(lease, expected);
}

#[test]
fn an_answer_for_another_transaction_or_machine_is_ignored() {
    let bytes = reply(2, XID, [10, 0, 2, 15], &[]);
    assert!(decode(&bytes, XID, MAC).is_ok());
    assert!(decode(&bytes, XID + 1, MAC).is_err());
    assert!(decode(&bytes, XID, [0x52, 0x54, 0, 0x12, 0x34, 0x57]).is_err());
    for at in [0, 1, 2, 236, 239] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert!(decode(&other, XID, MAC).is_err(), "byte {at}");
    }
}

#[test]
fn a_server_can_not_smuggle_lines_into_files_through_names() {
    for name in [&b"evil\nnameserver 6.6.6.6"[..], b"a b", b"-x", b"", b"\xff", b"a..b", b"x\0y"] {
        let lease = offer(&[(option::DOMAIN, name), (option::HOST_NAME, name)]).unwrap();
        assert_eq!((lease.domain, lease.host_name), (None, None), "{name:?}");
    }
}

#[test]
fn addresses_no_host_can_have_are_refused() {
    for address in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], [0, 1, 2, 3], [240, 0, 0, 1]] {
        assert!(decode(&reply(2, XID, address, &[]), XID, MAC).is_err(), "{address:?}");
        assert_eq!(offer(&[(option::ROUTERS, &address)]).unwrap().router, None, "{address:?}");
        assert!(offer(&[(option::NAME_SERVERS, &address)]).unwrap().name_servers.is_empty());
        assert!(offer(&[(option::SERVER, &address)]).is_err(), "{address:?}");
    }
}

#[test]
fn wild_options_are_refused() {
    let wild: [(u8, &[u8]); 10] = [
        (option::MASK, &[]),
        (option::MASK, &[255, 0, 255, 0]),
        (option::MASK, &[0, 0, 0, 0]),
        (option::MASK, &[255, 255, 255]),
        (option::LEASE_TIME, &[]),
        (option::LEASE_TIME, &[0, 0, 0, 1]),
        (option::LEASE_TIME, &[1]),
        (option::ROUTERS, &[10, 0, 2]),
        (option::SERVER, &[]),
        (option::MESSAGE_TYPE, &[2, 2]),
    ];
    for (code, value) in wild {
        assert!(offer(&[(code, value)]).is_err(), "option {code} {value:?}");
    }
}

#[test]
fn an_option_given_twice_is_refused() {
    let mut bytes = reply(2, XID, [10, 0, 2, 15], &[]);
    bytes.pop();
    bytes.extend([option::ROUTERS, 4, 6, 6, 6, 6, option::END]);
    assert_eq!(decode(&bytes, XID, MAC), Err("an option is there twice"));
}

#[test]
fn what_nobody_asked_for_may_be_long_and_in_pieces() {
    // RFC 3396: a list of domains to search (RFC 3397) in two pieces.
    let mut bytes = reply(2, XID, [10, 0, 2, 15], &[]);
    bytes.pop();
    for piece in [[1; 255], [2; 255]] {
        bytes.extend([119, 255]);
        bytes.extend(piece);
    }
    bytes.push(option::END);
    assert!(matches!(decode(&bytes, XID, MAC), Ok(Reply::Offer(_))));
}

/// A reply whose first options stand in their own place and the others in `sname` or `file` (RFC 2131 section 2, figure 1), with the
/// option that says where.
fn overloaded(says: &[u8], name: &[u8], file: &[u8]) -> Vec<u8> {
    let mut bytes = reply(2, XID, [10, 0, 2, 15], &[(option::ROUTERS, &[]), (option::OVERLOAD, says)]);
    bytes[44..44 + name.len()].copy_from_slice(name);
    bytes[108..108 + file.len()].copy_from_slice(file);
    bytes
}

#[test]
fn options_that_had_no_room_are_read_where_the_server_says_and_nowhere_else() {
    const ROUTER: [u8; 7] = [option::ROUTERS, 4, 10, 0, 2, 9, option::END];
    let domain = [&[option::DOMAIN, 11][..], b"example.org", &[option::END]].concat();
    let read = |says: &[u8]| {
        let lease = match decode(&overloaded(says, &domain, &ROUTER), XID, MAC)? {
            Reply::Offer(lease) => lease,
            reply => panic!("{reply:?}"),
        };
        Ok((lease.router.is_some(), lease.domain.is_some()))
    };
    assert_eq!(
        [read(&[]), read(&[1]), read(&[2]), read(&[3])],
        [Ok((false, false)), Ok((true, false)), Ok((false, true)), Ok((true, true))]
    );
    for says in [&[0][..], &[4], &[1, 1]] {
        assert_eq!(read(says), Err("it does not say where its options are"), "{says:?}");
    }
    // Whoever says it twice, or is cut off there, too.
    let twice = decode(&overloaded(&[3], &ROUTER, &ROUTER), XID, MAC);
    assert_eq!(twice, Err("an option is there twice"));
    let cut = [&[0; 126][..], &[option::DOMAIN, 1]].concat();
    assert_eq!(decode(&overloaded(&[1], &[], &cut), XID, MAC), Err("an option is cut off"));
}

#[test]
fn a_renewal_time_after_the_end_is_not_believed() {
    let lease = offer(&[(option::RENEWAL_TIME, &[0xff; 4])]).unwrap();
    assert_eq!(lease.renew, lease.time / 2);
    assert_eq!(offer(&[(option::RENEWAL_TIME, &[0; 4])]).unwrap().renew, lease.time / 2);
}

#[test]
fn at_most_three_name_servers_are_kept() {
    assert_eq!(offer(&[(option::NAME_SERVERS, &[9; 40])]).unwrap().name_servers.len(), 3);
}

#[test]
fn requests_have_the_bytes_of_the_standard() {
    let bytes = encode(Request::Discover, XID, MAC, Duration::from_secs(3));
    assert_eq!(bytes.len(), MIN_MESSAGE);
    assert_eq!(bytes[..12], [1, 1, 6, 0, 0x12, 0x34, 0x56, 0x78, 0, 3, 0x80, 0]);
    assert_eq!(bytes[28..34], MAC);
    assert_eq!(bytes[236..243], [99, 130, 83, 99, 53, 1, 1]);
    let lease = offer(&[]).unwrap();
    let bytes = encode(Request::Take(&lease), XID, MAC, Duration::ZERO);
    assert_eq!(bytes[12..16], [0; 4]);
    assert_eq!(bytes[240..255], [53, 1, 3, 50, 4, 10, 0, 2, 15, 54, 4, 10, 0, 2, 2]);
    let bytes = encode(Request::Renew(&lease), XID, MAC, Duration::ZERO);
    assert_eq!(bytes[12..16], [10, 0, 2, 15]);
    assert!(!bytes[240..].windows(2).any(|pair| pair == [50, 4] || pair == [54, 4]), "RFC 2131 table 5: MUST NOT");
}

proptest! {
    #[test]
    fn a_reply_cut_inside_of_an_option_is_refused(cut in 0usize..286) {
        let whole = reply(2, XID, [10, 0, 2, 15], &[(option::DOMAIN, b"example.org")]);
        // 273: all that a lease needs stands before; the domain and the end mark are missing.
        prop_assert_eq!(decode(&whole[..cut], XID, MAC).is_ok(), cut == 273);
    }

    #[test]
    fn no_options_make_the_reader_panic(options in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = reply(2, XID, [10, 0, 2, 15], &[]);
        bytes.truncate(FIXED);
        bytes.extend([option::OVERLOAD, 1, 3]);
        for (area, byte) in bytes[44..236].iter_mut().zip(&options) {
            *area = *byte;
        }
        bytes.extend(options);
        let _ = decode(&bytes, XID, MAC);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1600)) {
        let _ = decode(&bytes, XID, MAC);
    }
}
