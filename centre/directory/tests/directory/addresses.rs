//! Addresses, from inside and outside.

use latchkey_directory::address::{Address, AddressError, Domain, Outside, OutsideError};
use proptest::prelude::*;

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn seen(text: &str, host: &str, protocol: &str) -> String {
    let inside = Domain::try_from("internal.example".to_owned()).unwrap();
    address(text).seen_from(&Outside::read(host, Some(protocol)).unwrap(), &inside).to_string()
}

#[test]
fn an_address_is_a_scheme_a_host_and_perhaps_port_and_path() {
    for good in [
        "http://auth.example.org",
        "https://auth.example.org/",
        "https://auth:8443/a/b",
        "mqtt://127.0.0.1:1883",
        "mqtts://mqtt.example.org",
        "ws://[::1]:80/x",
        "wss://x",
    ] {
        assert_eq!(address(good).to_string(), good);
    }
    let refused = |text: &str| text.parse::<Address>().unwrap_err();
    for text in ["", "auth.example.org", "ftp://a", "HTTP://a", "javascript:alert(1)", "http:/a"] {
        assert_eq!(refused(text), AddressError::Scheme, "{text}");
    }
    for text in [
        "http://",
        "http://a_b",
        "http://A.example",
        "http://u@a",
        "http://a..b",
        "http://[::1",
        "http://1.2.3",
        "http://-a",
    ] {
        assert!(matches!(refused(text), AddressError::Host(_)), "{text}");
    }
    for text in ["http://a:", "http://a:0", "http://a:65536", "http://a:+1", "http://[::1]x", "http://a:1:2"] {
        assert!(matches!(refused(text), AddressError::Port(_)), "{text}");
    }
    for (text, bad) in [("http://a/?q", '?'), ("http://a/#f", '#'), ("http://a/ b", ' '), ("http://a/\"", '"')] {
        assert_eq!(refused(text), AddressError::Character(bad));
    }
    assert_eq!(refused(&format!("http://a/{}", "a".repeat(1024))), AddressError::TooLong);
}

#[test]
fn every_scheme_is_what_it_is_called_outside() {
    for (inside, with_tls, without) in [
        ("http://auth.internal.example", "https://auth.example.org", "http://auth.example.org"),
        ("https://auth.internal.example/x", "https://auth.example.org/x", "http://auth.example.org/x"),
        ("mqtt://mqtt.internal.example", "mqtts://mqtt.example.org", "mqtt://mqtt.example.org"),
        ("ws://a.internal.example", "wss://a.example.org", "ws://a.example.org"),
        ("mqtt://mqtt.internal.example:1883", "mqtts://mqtt.example.org", "mqtt://mqtt.example.org"),
        ("http://a.internal.example:8080", "https://a.example.org:8080", "http://a.example.org:8080"),
    ] {
        assert_eq!(seen(inside, "directory.example.org", "https"), with_tls);
        assert_eq!(seen(inside, "Directory.Example.org:443", "http"), without);
    }
}

#[test]
fn what_is_not_the_sites_own_keeps_its_name() {
    for elsewhere in
        ["https://git.example.com", "http://x.y.internal.example", "http://internal.example", "http://127.0.0.1:80"]
    {
        assert_eq!(seen(elsewhere, "directory.example.org", "https"), elsewhere);
    }
}

#[test]
fn what_a_proxy_says_is_one_host_and_a_protocol() {
    for host in [
        "",
        "localhost",
        "1.2.3.4",
        "a.example, b.example",
        "a.example/x",
        "[::1]",
        "a b.example",
        "evil.example\"",
        ".",
    ] {
        assert_eq!(Outside::read(host, Some("https")), Err(OutsideError::Host), "{host}");
    }
    assert_eq!(Outside::read("a.example", Some("gopher")), Err(OutsideError::Protocol));
    assert!(Outside::read("a.example", None).is_ok());
}

proptest! {
    #[test]
    fn what_is_read_is_written_so_and_read_again(text in "[a-z]{0,6}(://)?[a-zA-Z0-9.:\\[\\]-]{0,20}(/[ -~]{0,10})?") {
        if let Ok(read) = text.parse::<Address>() {
            prop_assert_eq!(&read.to_string(), &text);
            prop_assert_eq!(read.to_string().parse::<Address>().unwrap(), read);
        }
    }

    #[test]
    fn what_is_seen_from_outside_is_an_address(host in "[ -~]{0,40}", protocol in "(https?|wss?|[ -~]{0,5})") {
        let inside = Domain::try_from("internal.example".to_owned()).unwrap();
        if let Ok(outside) = Outside::read(&host, Some(&protocol)) {
            let seen = address("http://auth.internal.example/x").seen_from(&outside, &inside);
            prop_assert_eq!(seen.to_string().parse::<Address>().unwrap(), seen);
        }
    }
}
