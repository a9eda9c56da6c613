//! Bytes that nobody meant well.

use latchkey_auth::api::{Ask, Body, Method};
use proptest::prelude::*;

use super::site::*;

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![Method::Get, Method::Put, Method::Post, Method::Delete])
}

proptest! {
    #[test]
    fn no_path_and_no_body_is_a_panic_or_a_fault_of_ours(
        method in method(),
        path in "(/v2|/load|)(/(principal|identity|grant|find|acl|kerberos|whoami|[%a-z0-9@-]{0,40})){0,5}/?",
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Err(refused) = Ask::read(method, &path, &body) {
            prop_assert!((400..500).contains(&refused.status));
            prop_assert!(matches!(refused.body, Body::Text(why) if !why.is_empty()));
        }
    }
}

#[test]
fn deep_json_is_refused() {
    let mut site = Site::new();
    for body in ["[".repeat(100_000), format!("{}1", r#"{"a":"#.repeat(100_000))] {
        let status = site.ask(ROOT, Method::Post, "/load", body.as_bytes()).status;
        assert!([400, 422].contains(&status), "{status}");
    }
}

#[test]
fn a_list_that_multiplies_beyond_all_use_is_no_list() {
    use latchkey_factory_plus::uuids::{class, permission};
    let mut site = Site::new();
    let many = |first: u8| {
        (0..300_u16).map(move |n| {
            let mut bytes = [first; 16];
            bytes[..2].copy_from_slice(&n.to_be_bytes());
            latchkey_factory_plus::Uuid::from_bytes(bytes)
        })
    };
    site.members(permission::MQTT, many(200));
    site.members(class::EDGE_CLUSTER, many(201));
    site.grant(other(), permission::MQTT, class::EDGE_CLUSTER, true);
    assert_eq!(site.get(ROOT, &format!("/v2/acl/{}", other())).0, 503);
    assert_eq!(site.get(ROOT, &format!("/v2/acl/{}", edge())).0, 200, "others are not touched");
}
