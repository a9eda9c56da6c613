//! What services follow of auth and of the configuration database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::notify::Request;
use latchkey_factory_plus::{Upn, Uuid, uuids};
use latchkey_factory_plus_client::acl::{self, AccessError};
use latchkey_factory_plus_client::notify::State;
use latchkey_factory_plus_client::{Client, Insecure, Services, Trust, classes};
use latchkey_test_support::{block_on, until};
use serde_json::{Value, json};

use crate::support::{Server, client, limits, lock};

fn client_of(server: &Server) -> Client {
    let url = || server.url().parse().unwrap();
    let services = Services::fixed([(uuids::service::AUTH, url()), (uuids::service::CONFIG_DB, url())]);
    client(services, Trust::none().allowing(Insecure), limits())
}

fn upn(text: &str) -> Upn {
    text.parse().unwrap()
}

fn path(upn: &str) -> String {
    format!("v2/acl/kerberos/{}", latchkey_factory_plus_client::segment(upn))
}

fn access(number: u8) -> Access {
    Access { permission: Uuid::from_bytes([number; 16]), target: uuids::special::WILDCARD }
}

fn watched(server: &Server) -> usize {
    lock(&server.world().asked).iter().filter(|asked| matches!(asked, Request::Watch { .. })).count()
}

#[test]
fn many_who_ask_for_one_list_are_one_subscription_and_see_its_changes() {
    let server = Server::start();
    server.set(&path("op1flux/A@R"), json!([access(1)]));
    let follower = acl::Follower::new(&client_of(&server), acl::Settings::default());
    let tasks: Vec<_> = (0..30)
        .map(|_| {
            let follower = follower.clone();
            smol::spawn(async move { follower.access(&upn("op1flux/A@R")).await })
        })
        .collect();
    for task in tasks {
        let list = block_on(task).unwrap();
        assert!(allows(&list, access(1).permission, Uuid::NIL) && !allows(&list, access(2).permission, Uuid::NIL));
    }
    assert_eq!((watched(&server), follower.followed()), (1, 1));
    server.set(&path("op1flux/A@R"), json!([access(2)]));
    until("the new list", || (*block_on(follower.access(&upn("op1flux/A@R"))).unwrap() == [access(2)]).then_some(()));
    assert!(block_on(follower.access(&upn("nobody@R"))).unwrap().is_empty(), "who is unknown may do nothing");
}

#[test]
fn a_fixed_list_needs_no_service() {
    let server = Server::start();
    server.down();
    let fixed = BTreeMap::from([(upn("root@R"), Arc::from([access(1)]))]);
    let follower = acl::Follower::new(&client_of(&server), acl::Settings { fixed, ..acl::Settings::default() });
    assert_eq!(*block_on(follower.access(&upn("root@R"))).unwrap(), [access(1)]);
    let error = block_on(follower.access(&upn("ROOT@R"))).unwrap_err();
    assert!(matches!(error, AccessError::Unreachable { .. }), "{error}");
}

#[test]
fn without_the_service_a_list_is_used_for_its_grace_and_then_nobody_may_do_anything() {
    for (grace, fails) in [(Duration::ZERO, true), (Duration::from_hours(1), false)] {
        let server = Server::start();
        server.set(&path("a@R"), json!([access(1)]));
        let client = client_of(&server);
        let follower = acl::Follower::new(&client, acl::Settings { grace, ..acl::Settings::default() });
        assert!(block_on(follower.access(&upn("a@R"))).is_ok());
        // Another subscription of the same connection tells when it is lost.
        let mut witness = client.service(uuids::service::AUTH).notify().watch("v2/x");
        block_on(witness.changed());
        server.down();
        while witness.state() == State::Fresh {
            block_on(witness.changed());
        }
        if fails {
            let error = until("it fails closed", || block_on(follower.access(&upn("a@R"))).err());
            assert!(error.to_string().contains("authorisation service: GET"), "{error}");
            server.up();
            until("it follows again", || block_on(follower.access(&upn("a@R"))).ok());
        } else {
            assert_eq!(*block_on(follower.access(&upn("a@R"))).unwrap(), [access(1)]);
        }
    }
}

#[test]
fn a_list_that_is_refused_or_none_lets_nobody_do_anything() {
    let server = Server::start();
    let follower = acl::Follower::new(&client_of(&server), acl::Settings::default());
    for lie in [json!({}), json!([{"permission": "x", "target": "y"}]), json!(null), json!([1])] {
        server.set(&path("a@R"), lie);
        until("it is no list", || {
            matches!(block_on(follower.access(&upn("a@R"))), Err(AccessError::BadList { .. })).then_some(())
        });
        server.set(&path("a@R"), json!([access(1)]));
        until("it is one", || block_on(follower.access(&upn("a@R"))).ok());
    }
}

#[test]
fn few_lists_are_followed_and_unused_ones_are_not() {
    let server = Server::start();
    let settings = acl::Settings { most: 3, unused: Duration::from_millis(200), ..acl::Settings::default() };
    let follower = acl::Follower::new(&client_of(&server), settings);
    for number in 0..20 {
        assert!(block_on(follower.access(&upn(&format!("u{number}@R")))).unwrap().is_empty());
        assert!(follower.followed() <= 3);
    }
    until("nothing is followed", || (follower.followed() == 0).then_some(()));
    let closed = || lock(&server.world().asked).iter().filter(|asked| matches!(asked, Request::Close { .. })).count();
    until("all are closed at the service", || (closed() == watched(&server)).then_some(()));
}

fn registration(object: Uuid, owner: Uuid) -> (String, Value) {
    let path = format!("v2/app/{}/object/{object}", uuids::application::REGISTRATION);
    (
        path,
        json!({"uuid": object, "class": uuids::class::PRINCIPAL, "rank": 0, "owner": owner, "deleted": false, "strict": true}),
    )
}

#[test]
fn members_and_owners_are_followed_as_snapshots() {
    let server = Server::start();
    let (class, other, object, owner) = (Uuid::random(), Uuid::random(), Uuid::random(), Uuid::random());
    let (path, body) = registration(object, owner);
    server.set(&path, body);
    server.set(&format!("v2/class/{class}/member/"), json!([object]));
    let follower = classes::Follower::new(&client_of(&server));
    follower.follow(&BTreeSet::from([class, other]));
    let first = block_on(follower.complete());
    assert_eq!(first.members(class).unwrap(), &BTreeSet::from([object]));
    assert_eq!(first.members(other).unwrap(), &BTreeSet::new(), "a class that is not known has no members");
    assert_eq!((first.owner(object), first.owner(owner), first.state()), (Some(owner), None, State::Fresh));

    server.set(&format!("v2/class/{class}/member/"), json!([object, owner]));
    let (path, body) = registration(object, other);
    server.set(&path, body);
    let mut now = first.clone();
    while now.members(class).unwrap().len() != 2 || now.owner(object) != Some(other) {
        now = block_on(follower.changed(&now));
    }
    assert_eq!(first.members(class).unwrap().len(), 1, "a snapshot stays as it is");
    assert_eq!(now.owned_by(other).collect::<Vec<_>>(), [object]);

    server.down();
    while !matches!(now.state(), State::Stale { .. }) {
        now = block_on(follower.changed(&now));
    }
    assert!(now.is_complete(), "what was heard last stays");
    server.remove(&path);
    server.up();
    while now.state() != State::Fresh || now.owner(object).is_some() {
        now = block_on(follower.changed(&now));
    }
    follower.follow(&BTreeSet::from([other]));
    assert_eq!(follower.snapshot().members(class), None);
}
