//! Calls over HTTP.

use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_client::{
    Call, CallError, Identity, Insecure, Limits, Precondition, Services, Settings, Trust, Written,
};
use latchkey_test_support::block_on;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::support::{SERVICE, Server, client, limits, lock};

#[test]
fn many_calls_share_one_token_and_few_connections() {
    let server = Server::start();
    server.set("v2/x", json!({"a": 1}));
    let service = server.service();
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let service = service.clone();
            smol::spawn(async move { service.get::<Value>("v2/x").await })
        })
        .collect();
    for task in tasks {
        let (value, etag) = block_on(task).unwrap().unwrap();
        assert_eq!(value, json!({"a": 1}));
        assert!(etag.as_str().starts_with('"'));
    }
    assert_eq!((server.seen("POST token"), server.seen("GET v2/x")), (1, 40));
    assert!(*lock(&server.world().accepted) <= Limits::default().connections);
}

#[test]
fn one_after_the_other_use_one_connection() {
    let server = Server::start();
    let service = server.service();
    for _ in 0..10 {
        assert_eq!(block_on(service.read::<Value>("v2/none")).unwrap(), None);
    }
    assert_eq!(*lock(&server.world().accepted), 1);
}

#[test]
fn a_token_that_ended_early_is_renewed_and_the_call_repeated_once() {
    let server = Server::start();
    let service = server.service();
    block_on(service.put("v2/x", &1, &Precondition::None)).unwrap();
    lock(&server.world().tokens).clear();
    assert_eq!(block_on(service.put("v2/x", &2, &Precondition::None)).unwrap(), Written::Replaced);
    assert_eq!((server.seen("POST token"), server.seen("PUT v2/x")), (2, 3));
}

#[test]
fn a_service_that_refuses_every_token_is_asked_twice_and_no_more() {
    let server = Server::start();
    *lock(&server.world().answering) = Some(|_, path| (path != "token").then_some((401, "")));
    let error = block_on(server.service().read::<Value>("v2/x")).unwrap_err();
    assert!(matches!(error, CallError::Unauthenticated(_)), "{error}");
    assert_eq!((server.seen("POST token"), server.seen("GET v2/x")), (2, 2));
    assert!(error.to_string().contains(&format!("configuration database: GET {}/v2/x", server.url())), "{error}");
}

#[test]
fn a_wrong_password_is_said_once() {
    let server = Server::start();
    let identity = Identity::basic(&"sv1test@REALM".parse().unwrap(), &Zeroizing::new("falsch".into())).unwrap();
    let services = Services::fixed([(SERVICE, server.url().parse().unwrap())]);
    let trust = Trust::none().allowing(Insecure);
    let client = latchkey_factory_plus_client::Client::new(Settings { identity, trust, services, limits: limits() });
    let error = block_on(client.service(SERVICE).read::<Value>("v2/x")).unwrap_err();
    assert!(matches!(error, CallError::Unauthenticated(_)), "{error}");
    assert_eq!((server.seen("POST token"), server.seen("GET v2/x")), (1, 0));
    assert!(!error.to_string().contains("falsch"));
}

#[test]
fn each_status_is_one_kind_of_error() {
    let server = Server::start();
    *lock(&server.world().answering) = Some(|_, path| {
        let status = path.strip_prefix("status/")?.parse().ok()?;
        Some((status, "[\"why\"]"))
    });
    let service = server.service();
    let put = |status: u16| block_on(service.put(&format!("status/{status}"), &json!({}), &Precondition::None));
    assert_eq!(put(201).unwrap(), Written::Created);
    assert!(matches!(put(403), Err(CallError::Forbidden { .. })));
    assert!(matches!(put(404), Err(CallError::NotFound(_))));
    assert!(matches!(put(409), Err(CallError::Conflict { body, .. }) if &*body == "[\"why\"]"));
    assert!(matches!(put(412), Err(CallError::PreconditionFailed(_))));
    assert!(matches!(put(422), Err(CallError::Refused { status: 422, .. })));
    assert!(put(503).unwrap_err().is_transient() && !put(422).unwrap_err().is_transient());
    for status in [301, 302, 307, 304] {
        assert!(matches!(put(status), Err(CallError::Refused { .. })), "redirects are not followed");
    }
    assert!(!block_on(service.delete("status/404", &Precondition::None)).unwrap());
}

#[test]
fn preconditions_are_those_of_http() {
    let server = Server::start();
    let service = server.service();
    let put = |value: u8, when: Precondition| block_on(service.put("v2/x", &value, &when));
    assert_eq!(put(1, Precondition::Absent).unwrap(), Written::Created);
    assert!(matches!(put(2, Precondition::Absent), Err(CallError::PreconditionFailed(_))));
    let (_, old) = block_on(service.get::<u8>("v2/x")).unwrap().unwrap();
    assert_eq!(put(2, Precondition::Match(old.clone())).unwrap(), Written::Replaced);
    assert!(matches!(put(3, Precondition::Match(old)), Err(CallError::PreconditionFailed(_))));
    assert_eq!(put(4, Precondition::Present).unwrap(), Written::Replaced);
    assert!(block_on(service.delete("v2/x", &Precondition::None)).unwrap());
    assert!(matches!(put(5, Precondition::Present), Err(CallError::PreconditionFailed(_))));
}

#[test]
fn a_restarted_service_is_asked_on_a_new_connection_with_a_new_token() {
    let server = Server::start();
    let service = server.service();
    for number in 0..5 {
        block_on(service.put("v2/x", &number, &Precondition::None)).unwrap();
        server.restart();
        assert_eq!(block_on(service.read::<u8>("v2/x")).unwrap(), Some(number));
    }
    server.down();
    let error = block_on(service.read::<u8>("v2/x")).unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }) && error.is_transient(), "{error}");
}

#[test]
fn the_directory_says_where_a_service_is_and_where_it_moved() {
    let (directory, first, second) = (Server::start(), Server::start(), Server::start());
    let advertised = format!("v1/service/{SERVICE}");
    let services = Services::directory(directory.url().parse().unwrap());
    let client = client(services, Trust::none().allowing(Insecure), limits());
    let service = client.service(SERVICE);
    let read = || block_on(service.read::<u8>("v2/x"));
    assert_eq!(read(), Err(CallError::NotAdvertised(SERVICE)));
    directory.set(&advertised, json!([]));
    assert_eq!(read(), Err(CallError::NotAdvertised(SERVICE)));
    directory.set(&advertised, json!([{"device": null, "url": first.url()}]));
    first.set("v2/x", json!(1));
    second.set("v2/x", json!(2));
    assert_eq!((read().unwrap(), read().unwrap()), (Some(1), Some(1)));
    assert_eq!(directory.seen(&format!("GET {advertised}")), 3, "what it said is kept");
    directory.set(&advertised, json!([{"url": second.url()}]));
    first.down();
    assert!(matches!(read(), Err(CallError::Unreachable { .. })));
    assert_eq!(read().unwrap(), Some(2));
}

#[test]
fn a_directory_that_lies_is_named() {
    let directory = Server::start();
    let services = Services::directory(directory.url().parse().unwrap());
    for lie in [
        json!([{"url": "http://a"}, {"url": "http://b"}]),
        json!([{"url": "file:///etc/shadow"}]),
        json!([{"url": "http://u:p@h/"}]),
        json!({"url": "http://a"}),
        json!(null),
    ] {
        directory.set(&format!("v1/service/{SERVICE}"), lie);
        let client = client(services.clone(), Trust::none().allowing(Insecure), limits());
        let error = block_on(client.service(SERVICE).read::<u8>("v2/x")).unwrap_err();
        assert!(
            matches!(error, CallError::BadAnswer { .. }) && error.to_string().starts_with("directory: GET"),
            "{error}"
        );
    }
}

#[test]
fn plain_http_is_not_spoken_unless_it_is_allowed() {
    let server = Server::start();
    let services = Services::fixed([(uuids::service::AUTH, server.url().parse().unwrap())]);
    let client = client(services, Trust::none(), limits());
    let error = block_on(client.service(uuids::service::AUTH).read::<u8>("v2/x")).unwrap_err();
    assert!(matches!(error, CallError::NotTrusted { .. }), "{error}");
    assert_eq!(*lock(&server.world().accepted), 0, "not even a connection");
}

#[test]
fn a_call_that_cannot_be_written_is_not_sent() {
    let server = Server::start();
    let service = server.service();
    for path in ["/v2/x", "v2/../token", "v2/x y", "v2/x\r\nHost: y"] {
        let error = block_on(service.call(Call::new(http::Method::GET, path))).unwrap_err();
        assert!(matches!(error, CallError::BadCall { .. }), "{error}");
    }
    assert_eq!(*lock(&server.world().accepted), 0);
    assert_ne!(SERVICE, Uuid::NIL);
}
