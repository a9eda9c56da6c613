use proptest::prelude::*;

use super::*;

/// The expected bytes are those of a little-endian machine, which every target is.
#[test]
fn requests_have_the_bytes_of_the_kernel_headers() {
    assert_eq!(
        set_up(7, 2),
        hex::decode("20000000100005000700000000000000000000000200000001000000".to_owned() + "01000000").unwrap()
    );
    assert_eq!(
        hex::encode(add_address(1, 2, "10.0.2.15".parse().unwrap(), 24)),
        // header, ifaddrmsg, IFA_LOCAL, IFA_ADDRESS
        "28000000140005050100000000000000".to_owned() + "0218020002000000" + "080002000a00020f" + "080001000a00020f"
    );
    assert_eq!(
        hex::encode(add_default_route(3, 2, "10.0.2.2".parse().unwrap())),
        // header, rtmsg, RTA_GATEWAY, RTA_OIF
        "2c000000180005050300000000000000".to_owned()
            + "02000000fe03000104000000"
            + "080005000a000202"
            + "0800040002000000"
    );
    assert_eq!(hex::encode(list_links(1)), "20000000120001030100000000000000".to_owned() + &"00".repeat(16));
}

fn link_message() -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(ETHERNET.to_ne_bytes());
    body.extend(5u32.to_ne_bytes());
    body.extend((UP | CARRIER).to_ne_bytes());
    body.extend([0; 4]);
    Builder::new(NEW_LINK, 0, 0, &body)
        .attribute(3, b"eth0\0")
        .attribute(1, &[2, 0, 0, 0, 0, 1])
        .attribute(99, b"x")
        .finish()
}

#[test]
fn a_link_is_read_with_its_unaligned_attributes() {
    let bytes = link_message();
    let link = LinkInfo::parse(messages(&bytes).unwrap()[0].body).unwrap();
    assert_eq!((link.index, link.name.as_str(), link.flags), (5, "eth0", UP | CARRIER));
    assert_eq!(link.address, [2, 0, 0, 0, 0, 1]);
}

#[test]
fn several_messages_of_one_call_are_split() {
    let mut bytes = link_message();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(Builder::new(DONE, 0, 9, &[0; 4]).finish());
    let kinds: Vec<_> = messages(&bytes).unwrap().iter().map(|message| (message.kind, message.sequence)).collect();
    assert_eq!(kinds, [(NEW_LINK, 0), (DONE, 9)]);
}

#[test]
fn tentative_and_local_addresses_are_not_usable() {
    let address = |flags: u32, scope: u8| {
        let message = Builder::new(NEW_ADDRESS, 0, 0, &[INET6, 64, 0, scope, 2, 0, 0, 0])
            .attribute(1, &[0xfd; 16])
            .attribute(8, &flags.to_ne_bytes())
            .finish();
        AddressInfo::parse(messages(&message).unwrap()[0].body).unwrap()
    };
    assert!(address(0, 0).usable);
    assert!(address(0, 200).usable, "of a site");
    assert!(!address(0x40, 0).usable, "tentative");
    assert!(!address(0x08, 0).usable, "a duplicate was found");
    assert!(!address(0, 253).usable, "link-local");
    assert_eq!(address(0, 0).address, Some([0xfd; 16].into()));
}

fn nd_option(options: &[u8]) -> Vec<u8> {
    let mut body = vec![INET6, 0];
    body.extend(u16::try_from(options.len()).unwrap().to_ne_bytes());
    body.extend(3u32.to_ne_bytes());
    body.extend([134, 0, 0, 0, 0, 0, 0, 0]);
    body.extend(options);
    body
}

#[test]
fn name_servers_of_an_advertisement_are_read() {
    let mut option = vec![25, 3, 0, 0, 0, 0, 7, 8];
    option.extend([0xfd; 16]);
    assert_eq!(advertised_name_servers(&nd_option(&option)).unwrap(), (3, vec![[0xfd; 16].into()]));
    option[4..8].fill(0);
    assert_eq!(advertised_name_servers(&nd_option(&option)).unwrap(), (3, vec![]), "a lifetime of zero withdraws them");
}

#[test]
fn an_option_of_length_zero_does_not_loop_forever() {
    assert!(advertised_name_servers(&nd_option(&[25, 0, 0, 0, 0, 0, 0, 0])).is_err());
    assert!(advertised_name_servers(&nd_option(&[25, 9, 0, 0, 0, 0, 0, 0])).is_err());
}

#[test]
fn lengths_that_lie_are_refused() {
    for length in [0u32, 15, 17, 1000, u32::MAX] {
        let mut bytes = Builder::new(DONE, 0, 0, &[]).finish();
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        assert!(messages(&bytes).is_err(), "{length}");
    }
    let mut bytes = link_message();
    bytes[32..34].copy_from_slice(&3u16.to_ne_bytes());
    assert!(LinkInfo::parse(messages(&bytes).unwrap()[0].body).is_err(), "an attribute shorter than its header");
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = messages(&bytes);
        let _ = LinkInfo::parse(&bytes);
        let _ = AddressInfo::parse(&bytes);
        let _ = advertised_name_servers(&bytes);
        let _ = advertised_name_servers(&nd_option(&bytes));
        let _ = error_number(&bytes);
    }
}
