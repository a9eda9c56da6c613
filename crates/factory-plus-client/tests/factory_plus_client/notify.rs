//! Change notification: honest servers, lost connections, lies.

use std::collections::BTreeMap;
use std::time::Duration;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::Request;
use latchkey_factory_plus_client::Limits;
use latchkey_factory_plus_client::notify::{Event, Search, State, Watch};
use latchkey_test_support::{block_on, until};
use serde_json::{Value, json};

use crate::support::{SERVICE, Server, limits, lock};

const PARENT: &str = "v2/app/x/object/";

fn child(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn path(number: u8) -> String {
    format!("{PARENT}{}", child(number))
}

fn next(search: &mut Search) -> Event {
    block_on(search.next())
}

/// Waits until a watch has heard `value` and follows.
fn follows(watch: &mut Watch, value: &Value) {
    block_on(async {
        while watch.state() != State::Fresh
            || watch.reading().and_then(|reading| reading.body).as_deref() != Some(value)
        {
            watch.changed().await;
        }
    });
}

/// Waits until something is stale; why it is.
fn stale(watch: &mut Watch) -> String {
    block_on(async {
        loop {
            if let State::Stale { reason, .. } = watch.state() {
                return reason.to_string();
            }
            watch.changed().await;
        }
    })
}

fn whole(event: Event) -> BTreeMap<Uuid, Value> {
    match event {
        Event::Complete(children) => children.into_iter().map(|(child, body)| (child, (*body).clone())).collect(),
        other => panic!("not everything but {other:?}"),
    }
}

#[test]
fn a_watch_tells_what_there_is_and_each_change() {
    let server = Server::start();
    let notify = server.service().notify();
    // The server notes what it is asked before it answers: it cannot while the list is held here.
    let asked = lock(&server.world().asked);
    let mut watch = notify.watch("v2/x");
    assert_eq!((watch.state(), watch.reading()), (State::Waiting, None));
    drop(asked);
    block_on(watch.changed());
    assert_eq!((watch.state(), watch.reading().unwrap().status), (State::Fresh, 404));
    for value in [json!(0), json!(false), json!(null), json!({"a": 1})] {
        server.set("v2/x", value.clone());
        follows(&mut watch, &value);
        assert_eq!(watch.reading().unwrap().etag.unwrap().as_str(), "\"v1\"");
    }
    server.remove("v2/x");
    block_on(watch.changed());
    assert_eq!(watch.reading().unwrap().status, 404);
}

#[test]
fn a_search_tells_everything_and_then_changes() {
    let server = Server::start();
    server.set(&path(1), json!(1));
    server.set(&path(2), json!(null));
    let mut search = server.service().notify().search(PARENT, None);
    assert_eq!(whole(next(&mut search)), BTreeMap::from([(child(1), json!(1)), (child(2), json!(null))]));
    server.set(&path(3), json!(3));
    assert_eq!(next(&mut search), Event::Set(child(3), json!(3).into()));
    server.remove(&path(1));
    assert_eq!(next(&mut search), Event::Gone(child(1)));
    assert_eq!(search.state(), State::Fresh);
    assert_eq!(search.children().unwrap().into_keys().collect::<Vec<_>>(), [child(2), child(3)]);
}

#[test]
fn after_a_lost_connection_only_differences_are_told() {
    let server = Server::start();
    for number in 0..20 {
        server.set(&path(number), json!(number));
    }
    let mut search = server.service().notify().search(PARENT, None);
    assert_eq!(whole(next(&mut search)).len(), 20);
    server.down();
    let Event::Stale(_, reason) = next(&mut search) else { panic!("it follows nobody") };
    assert!(reason.contains("configuration database: GET") && reason.contains("/notify/v2"), "{reason}");
    assert!(matches!(search.state(), State::Stale { .. }));
    server.set(&path(3), json!("new"));
    server.remove(&path(4));
    server.set(&path(20), json!(20));
    // Tokens are gone with the restart, too.
    server.restart();
    assert_eq!(next(&mut search), Event::Set(child(3), json!("new").into()));
    assert_eq!(next(&mut search), Event::Gone(child(4)));
    assert_eq!(next(&mut search), Event::Set(child(20), json!(20).into()));
    assert_eq!(next(&mut search), Event::Fresh);
    let asked: Vec<Uuid> = lock(&server.world().asked)
        .iter()
        .filter_map(|request| if let Request::Search { uuid, .. } = request { Some(*uuid) } else { None })
        .collect();
    assert!(asked.len() >= 2 && asked[0] != asked[1], "asked again with another UUID");
}

#[test]
fn a_connection_that_breaks_in_the_start_of_a_search_completes_later() {
    let server = Server::start();
    server.set(&path(1), json!(1));
    *lock(&server.world().lying) = Some(|_| None);
    let mut search = server.service().notify().search(PARENT, None);
    assert!(matches!(next(&mut search), Event::Stale(..)));
    assert_eq!(search.children(), None, "what is not complete is not told");
    *lock(&server.world().lying) = None;
    assert_eq!(whole(next(&mut search)), BTreeMap::from([(child(1), json!(1))]));
    assert_eq!(search.state(), State::Fresh);
}

#[test]
fn a_token_that_ended_is_renewed_when_change_notification_comes_back() {
    let server = Server::start();
    server.set("v2/x", json!(1));
    let service = server.service();
    block_on(service.read::<Value>("v2/x")).unwrap();
    lock(&server.world().tokens).clear();
    let mut watch = service.notify().watch("v2/x");
    follows(&mut watch, &json!(1));
    assert_eq!(server.seen("POST token"), 2);
}

#[test]
fn many_subscriptions_share_one_connection_which_ends_with_the_last() {
    let server = Server::start();
    let service = server.service();
    let mut watches: Vec<Watch> = (0..50)
        .map(|number| {
            server.set(&format!("v2/{number}"), json!(number));
            service.notify().watch(&format!("v2/{number}"))
        })
        .collect();
    for (number, watch) in watches.iter_mut().enumerate() {
        follows(watch, &json!(number));
    }
    // One for the token, one for change notification.
    assert_eq!(*lock(&server.world().accepted), 2);
    watches.truncate(1);
    let closed = || lock(&server.world().asked).iter().filter(|asked| matches!(asked, Request::Close { .. })).count();
    until("49 are closed", || (closed() == 49).then_some(()));
    server.set("v2/0", json!("still"));
    follows(&mut watches[0], &json!("still"));
    drop(watches);
    until("nobody listens", || {
        server.world().tell("v2/0");
        server.world().nobody_listens().then_some(())
    });
}

#[test]
fn one_subscription_too_many_says_so_and_waits_for_room() {
    let server = Server::start();
    let service = server.client_with(Limits { subscriptions: 2, ..limits() }).service(SERVICE);
    let notify = service.notify();
    let mut watches: Vec<Watch> = (0..3).map(|number| notify.watch(&format!("v2/{number}"))).collect();
    assert!(stale(&mut watches[2]).contains("more than 2 subscriptions"));
    block_on(watches[1].changed());
    assert_eq!(watches[1].state(), State::Fresh);
    // As soon as there is room it is asked for.
    drop(watches.remove(0));
    block_on(async {
        while watches[1].state() != State::Fresh {
            watches[1].changed().await;
        }
    });
}

/// A lie about a subscription, or about all of them: it is stale and says why, and fresh as soon as the truth is told.
#[track_caller]
fn is_named(lie: fn(&Request) -> Option<Vec<String>>, why: &str) {
    let server = Server::start();
    server.set(&path(1), json!(1));
    *lock(&server.world().lying) = Some(lie);
    let small = Limits { frame: 100_000, children: 100, children_bytes: 10_000, ..limits() };
    let mut search = server.client_with(small).service(SERVICE).notify().search(PARENT, None);
    let Event::Stale(_, reason) = next(&mut search) else { panic!("it believes that") };
    assert!(reason.starts_with("configuration database: GET http://127.0.0.1") && reason.contains(why), "{reason}");
    assert!(reason.len() < 1000, "{reason}");
    *lock(&server.world().lying) = None;
    assert_eq!(whole(next(&mut search)), BTreeMap::from([(child(1), json!(1))]));
}

fn uuid(request: &Request) -> Uuid {
    match request {
        Request::Watch { uuid, .. } | Request::Search { uuid, .. } | Request::Close { uuid } => *uuid,
    }
}

fn start(request: &Request, count: u32, body: &Value) -> String {
    let children: BTreeMap<Uuid, Value> =
        (0..count).map(|n| (Uuid::NIL.named(&n.to_string()), json!({"status": 200, "body": body}))).collect();
    json!({"uuid": uuid(request), "status": 201, "response": {"status": 204}, "children": children}).to_string()
}

#[test]
fn too_many_children_are_bounded_and_named() {
    is_named(|request| Some(vec![start(request, 101, &json!(1))]), "more than 100 children");
    is_named(|request| Some(vec![start(request, 20, &json!("x".repeat(1000)))]), "children of more than 10000 bytes");
}

#[test]
fn children_that_come_without_end_are_bounded_and_named() {
    let server = Server::start();
    *lock(&server.world().lying) = Some(|request| {
        let one = |n: u32| {
            let (child, response) = (Uuid::NIL.named(&n.to_string()), json!({"status": 200, "body": 1}));
            json!({"uuid": uuid(request), "status": 200, "child": child, "response": response}).to_string()
        };
        Some(std::iter::once(start(request, 0, &json!(1))).chain((0..200).map(one)).collect())
    });
    let small = Limits { children: 100, ..limits() };
    let mut search = server.client_with(small).service(SERVICE).notify().search(PARENT, None);
    assert!(whole(next(&mut search)).is_empty());
    let reason = loop {
        match next(&mut search) {
            Event::Set(..) => {}
            Event::Stale(_, reason) => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("more than 100 children"), "{reason}");
    assert_eq!(search.children().unwrap().len(), 100);
    server.set(&path(1), json!(1));
    *lock(&server.world().lying) = None;
    block_on(async { while search.next().await != Event::Fresh {} });
    assert_eq!(search.children().unwrap().into_keys().collect::<Vec<_>>(), [child(1)]);
}

#[test]
fn huge_frames_and_frames_that_are_no_updates_are_named() {
    is_named(|request| Some(vec![start(request, 20, &json!("x".repeat(10_000)))]), "Space limit exceeded");
    is_named(|_| Some(vec!["{".into()]), "no update");
    is_named(|_| Some(vec!["[".repeat(50_000)]), "no update");
    is_named(|_| Some(vec![json!({"uuid": "x", "status": 201}).to_string()]), "no update");
    is_named(|_| Some(vec![json!({"uuid": Uuid::NIL, "status": 201}).to_string()]), "nobody asked for");
}

#[test]
fn searches_that_start_wrongly_are_named() {
    is_named(|request| Some(vec![json!({"uuid": uuid(request), "status": 201}).to_string()]), "without children");
    is_named(
        |request| {
            Some(vec![json!({"uuid": uuid(request), "status": 200, "child": Uuid::NIL, "response": {"status": 200, "body": 1}}).to_string()])
        },
        "before all children",
    );
    is_named(
        |request| {
            Some(vec![json!({"uuid": uuid(request), "status": 201, "response": {"status": 204}, "children": {"x": {"status": 200, "body": 1}}}).to_string()])
        },
        "no UUID",
    );
}

#[test]
fn refusals_are_named_and_asked_again() {
    is_named(|request| Some(vec![json!({"uuid": uuid(request), "status": 503}).to_string()]), "answers 503");
    is_named(|request| Some(vec![json!({"uuid": uuid(request), "status": 403}).to_string()]), "grant our principal");
}

#[test]
fn a_search_that_is_forbidden_while_it_is_open_is_stale_until_it_is_told() {
    let server = Server::start();
    *lock(&server.world().lying) = Some(|request| {
        Some(vec![json!({"uuid": uuid(request), "status": 201, "response": {"status": 403}}).to_string()])
    });
    let mut search = server.service().notify().search(PARENT, None);
    let Event::Stale(_, reason) = next(&mut search) else { panic!("it believes that") };
    assert!(reason.contains("forbids"), "{reason}");
    assert_eq!(search.children(), None);
}

#[test]
fn a_server_that_answers_no_ping_is_left() {
    let server = Server::start();
    server.set("v2/x", json!(1));
    *lock(&server.world().deaf) = true;
    let quick = Limits { ping: Duration::from_millis(100), ..limits() };
    let mut watch = server.client_with(quick).service(SERVICE).notify().watch("v2/x");
    assert!(stale(&mut watch).contains("answers no ping"));
    *lock(&server.world().deaf) = false;
    follows(&mut watch, &json!(1));
}
