//! Subscriptions: frame by frame, and against the store at every point.

use std::collections::BTreeMap;

use latchkey_config_db::watch::Subscription;
use latchkey_config_db::{Answer, Caller, ConfigDb, Depth, Json, Preconditions, Read, Refusal, Uuid, Write};
use latchkey_factory_plus::notify::{Method, Response, Update};
use latchkey_factory_plus::uuids::application::REGISTRATION;
use latchkey_factory_plus::uuids::class::INDIVIDUAL;
use latchkey_factory_plus::uuids::permission::READ_CONFIG;
use latchkey_test_support::block_on;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::database::engines::on_each_engine;
use crate::database::rig::{
    APP, CLASS, Children, OBJECTS, OTHER, X, Y, delete, filled, holder, next, put, ready, response, search, value,
    watch, write,
};
use crate::place::Place;

fn started(place: &Place) -> ConfigDb {
    let db = ConfigDb::start(place.engine()).unwrap();
    filled(&db);
    db
}

fn etag(response: &Response) -> Option<&str> {
    response.headers.get("etag").and_then(Value::as_str)
}

on_each_engine! {
    a_watched_entry_is_told_of_from_its_creation_to_its_end,
    a_search_tells_of_children_by_name,
    who_loses_the_right_is_told_once_and_who_gets_it_back_everything,
    who_reads_too_slowly_is_dropped_and_told_so,
    a_subscription_that_begins_among_writes_misses_nothing_and_hears_nothing_twice,
}

/// §11.15: creation is 201, every update has an etag, and falsy values are values.
fn a_watched_entry_is_told_of_from_its_creation_to_its_end(place: &Place) {
    let db = started(place);
    let mut watcher = watch(&db, &format!("v2/app/{APP}/object/{X}"), None);
    let mut head = watch(&db, &format!("/v1/app/{APP}/object/{X}"), Some(Method::Head));
    let first = next(&mut watcher);
    assert_eq!((first.status, response(&first).status, &response(&first).body), (201, 404, &None));
    assert_eq!(response(&next(&mut head)).status, 404);
    for (number, falsy) in [json!(null), json!(0), json!(false), json!("")].into_iter().enumerate() {
        write(&db, put(X, &falsy)).unwrap();
        let (update, head) = (next(&mut watcher), next(&mut head));
        let expected = if number == 0 { 201 } else { 200 };
        assert_eq!((update.status, response(&update).status), (200, expected));
        assert_eq!(response(&update).body, Some(falsy));
        assert!(etag(response(&update)).is_some() && etag(response(&update)) == etag(response(&head)));
        assert_eq!((response(&head).status, &response(&head).body), (expected, &None));
    }
    write(&db, put(X, &json!(""))).unwrap();
    write(&db, put(Y, &json!(1))).unwrap();
    assert_eq!(ready(&mut watcher, &Caller::root()), None, "neither no change nor another entry");
    write(&db, delete(X)).unwrap();
    let last = next(&mut watcher);
    assert_eq!((last.status, response(&last).status, &response(&last).body), (200, 404, &None));
}

fn a_search_tells_of_children_by_name(place: &Place) {
    let db = started(place);
    write(&db, put(X, &json!({"cluster": [1, 2]}))).unwrap();
    let mut all = search(&db, None);
    let mut some = search(&db, Some(json!({"cluster": [1, 2]}))); // §11.15: an array in a filter
    for watcher in [&mut all, &mut some] {
        let first = next(watcher);
        assert_eq!((first.status, response(&first).status), (201, 204));
        let children = first.children.unwrap();
        assert_eq!(children.keys().collect::<Vec<_>>(), [&X.to_string()]);
        assert_eq!(children[&X.to_string()].status, 200);
        assert!(etag(&children[&X.to_string()]).is_some());
    }
    let step =
        |write_this: Write, of_all: u16, of_some: Option<u16>, all: &mut Subscription, some: &mut Subscription| {
            write(&db, write_this).unwrap();
            let update = next(all);
            assert_eq!((update.child.is_some(), response(&update).status), (true, of_all));
            assert_eq!(ready(some, &Caller::root()).map(|update| response(&update).status), of_some);
        };
    let (inside, outside) = (json!({"cluster": [1, 2], "n": 1}), json!({"cluster": [1]}));
    step(put(Y, &json!(7)), 201, None, &mut all, &mut some); // no object
    step(put(Y, &inside), 200, Some(200), &mut all, &mut some);
    step(put(Y, &outside), 200, Some(412), &mut all, &mut some);
    step(delete(Y), 404, None, &mut all, &mut some);
    step(put(Y, &inside), 201, Some(201), &mut all, &mut some);
    step(delete(Y), 404, Some(404), &mut all, &mut some);
}

fn who_loses_the_right_is_told_once_and_who_gets_it_back_everything(place: &Place) {
    let db = started(place);
    let (reader, nobody) = (holder(&[(READ_CONFIG, APP)]), holder(&[]));
    write(&db, put(X, &json!("secret 1"))).unwrap();
    let mut watcher = search(&db, None);
    let refused = ready(&mut watcher, &nobody).unwrap();
    assert_eq!((refused.status, response(&refused).status, refused.children), (201, 403, None));
    write(&db, put(X, &json!("secret 2"))).unwrap();
    assert_eq!(ready(&mut watcher, &nobody), None);
    let anew = ready(&mut watcher, &reader).unwrap();
    assert_eq!((anew.status, anew.children.unwrap()[&X.to_string()].body.clone()), (200, Some(json!("secret 2"))));
    write(&db, put(X, &json!("secret 3"))).unwrap();
    let lost = ready(&mut watcher, &nobody).unwrap();
    assert_eq!((response(&lost).status, &response(&lost).body, &lost.child), (403, &None, &None));
    assert_eq!(watcher.recheck(&nobody), None);
    assert!(watcher.recheck(&reader).unwrap().contains("secret 3"));
}

fn who_reads_too_slowly_is_dropped_and_told_so(place: &Place) {
    let db = started(place);
    let (mut slow, mut quick) = (search(&db, None), search(&db, None));
    let writes: Vec<_> = (0..1100).map(|number| db.write(Caller::root(), put(X, &json!(number)))).collect();
    next(&mut quick);
    block_on(async {
        for write in writes {
            write.await.unwrap();
            quick.next(&Caller::root()).await.unwrap();
        }
    });
    let mut frames = 0;
    let last = loop {
        let update = next(&mut slow);
        if update.is_last() {
            break update;
        }
        frames += 1;
    };
    assert_eq!((last.status, frames), (503, 1025), "the first and what waited");
    assert_eq!(block_on(slow.next(&Caller::root())), None);
}

fn a_subscription_that_begins_among_writes_misses_nothing_and_hears_nothing_twice(place: &Place) {
    let db = started(place);
    write(&db, put(X, &json!(0))).unwrap();
    let writer = std::thread::spawn({
        let db = db.clone();
        move || {
            for number in 1..400 {
                write(&db, put(X, &json!(number))).unwrap();
            }
        }
    });
    let mut watchers = 0;
    while value(&db, X) != Some(json!(399)) {
        let mut watcher = search(&db, None);
        let first = next(&mut watcher);
        let mut seen = first.children.unwrap()[&X.to_string()].body.as_ref().unwrap().as_u64().unwrap();
        for _ in 0..(399 - seen).min(5) {
            seen += 1;
            assert_eq!(response(&next(&mut watcher)).body, Some(json!(seen)));
        }
        watchers += 1;
    }
    writer.join().unwrap();
    assert!(watchers > 1, "{watchers}");
}

/// What a random run does.
#[derive(Debug, Clone)]
enum Step {
    Put(usize, u8),
    Patch(usize, u8),
    Delete(usize),
    Member(bool, usize),
    Subclass(bool),
    Mark(usize, bool),
    Create(u8),
    DeleteObject(u8),
    /// Several at once, which may become one group.
    Together(Vec<(usize, u8)>),
    Subscribe(usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let object = || 0..OBJECTS.len();
    prop_oneof![
        4 => (object(), 0_u8..4).prop_map(|(object, value)| Step::Put(object, value)),
        2 => (object(), 0_u8..4).prop_map(|(object, value)| Step::Patch(object, value)),
        2 => object().prop_map(Step::Delete),
        2 => (any::<bool>(), object()).prop_map(|(add, object)| Step::Member(add, object)),
        1 => any::<bool>().prop_map(Step::Subclass),
        1 => (object(), any::<bool>()).prop_map(|(object, mark)| Step::Mark(object, mark)),
        1 => (0_u8..3).prop_map(Step::Create),
        1 => (0_u8..3).prop_map(Step::DeleteObject),
        2 => proptest::collection::vec((object(), 0_u8..4), 1..8).prop_map(Step::Together),
        4 => (0..WATCHED).prop_map(Step::Subscribe),
        1 => any::<usize>().prop_map(Step::Drop),
    ]
}

/// How many kinds of subscriptions [`subscribe`] knows.
const WATCHED: usize = 11;

fn filter() -> Value {
    json!({"n": 1})
}

/// A subscription, and what its reader has put together.
struct Reader {
    kind: usize,
    subscription: Subscription,
    single: Option<Response>,
    children: Children,
}

fn subscribe(db: &ConfigDb, kind: usize) -> Reader {
    let subscription = match kind {
        0 => search(db, None),
        1 => search(db, Some(filter())),
        2 => watch(db, &format!("v2/app/{APP}/object/{X}"), None),
        3 => watch(db, &format!("v2/app/{APP}/object/"), None),
        4 => watch(db, &format!("v2/app/{REGISTRATION}/object/{X}"), None),
        5 => watch(db, &format!("v2/class/{OTHER}/member/"), None),
        6 => watch(db, &format!("v2/class/{OTHER}/direct/member/"), None),
        7 => watch(db, &format!("v2/class/{INDIVIDUAL}/subclass/"), None),
        8 => watch(db, &format!("v2/class/{OTHER}/direct/subclass/"), None),
        9 => watch(db, &format!("v2/app/{REGISTRATION}/object/"), None),
        _ => watch(db, &format!("v2/class/{INDIVIDUAL}/member/"), None),
    };
    Reader { kind, subscription, single: None, children: Children::new() }
}

impl Reader {
    fn catch_up(&mut self) {
        while let Some(update) = ready(&mut self.subscription, &Caller::root()) {
            self.take(update);
        }
    }

    fn take(&mut self, update: Update) {
        let first = self.single.is_none();
        assert_eq!(update.status, if first { 201 } else { 200 });
        let Update { response, child, children, .. } = update;
        let response = response.unwrap();
        if let Some(child) = child {
            let before = match response.status {
                404 | 412 => self.children.remove(&child),
                _ => self.children.insert(child, response.clone()),
            };
            match response.status {
                201 => assert_eq!(before, None, "created though it was there"),
                404 | 412 => assert!(before.is_some(), "gone though it was not there"),
                _ => assert_ne!(before.map(|before| before.headers), Some(response.headers), "told twice"),
            }
            return;
        }
        if let Some(before) = self.single.replace(response.clone()) {
            assert_ne!((before.body, before.headers), (response.body, response.headers), "told twice");
            assert_eq!(response.status == 201, before.status == 404 && self.kind < 5 && self.kind != 3);
        }
        self.children.extend(children.into_iter().flatten());
    }

    /// What was put together is what the store says.
    fn compare(&self, db: &ConfigDb) {
        let read = |read: Read| db.read(&Caller::root(), &read);
        let entry = |app, object| read(Read::Entry(app, object, Preconditions::default()));
        let single = || self.single.as_ref().unwrap().body.clone();
        let expected = match self.kind {
            0 | 1 => {
                let stored = OBJECTS.iter().filter_map(|object| match entry(APP, *object) {
                    Ok(Answer::Entry(entry)) => {
                        Some((object.to_string(), (entry.json.value(), entry.etag.to_string())))
                    }
                    _ => None,
                });
                let met = |value: &Value| self.kind == 0 || value.get("n") == filter().get("n");
                let stored: BTreeMap<_, _> = stored.filter(|(_, (value, _))| met(value)).collect();
                let told = self.children.iter().map(|(child, response)| {
                    (child.clone(), (response.body.clone().unwrap(), etag(response).unwrap().to_owned()))
                });
                assert_eq!(told.collect::<BTreeMap<_, _>>(), stored);
                return;
            }
            2 => entry(APP, X),
            3 => read(Read::EntryObjects(APP)),
            4 => entry(REGISTRATION, X),
            5 => read(Read::Members(OTHER, Depth::Derived)),
            6 => read(Read::Members(OTHER, Depth::Direct)),
            7 => read(Read::Subclasses(INDIVIDUAL, Depth::Derived)),
            8 => read(Read::Subclasses(OTHER, Depth::Direct)),
            9 => read(Read::EntryObjects(REGISTRATION)),
            _ => read(Read::Members(INDIVIDUAL, Depth::Derived)),
        };
        let expected = match expected {
            Ok(answer) => Some(answer.body().unwrap().value()),
            Err(Refusal::Missing { .. }) => None,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(single(), expected, "kind {}", self.kind);
    }
}

fn extra(number: u8) -> Uuid {
    Uuid::from_random([number; 16])
}

fn json_of(value: u8) -> Json {
    Json::of(&if value == 0 { json!(null) } else { json!({ "n": value }) })
}

fn run(db: &ConfigDb, readers: &mut Vec<Reader>, step: Step) {
    let none = Preconditions::default;
    let put = |object: usize, value| Write::Put(APP, OBJECTS[object], json_of(value), none());
    let writes = match step {
        Step::Put(object, value) => vec![put(object, value)],
        Step::Patch(object, value) => vec![Write::Patch(APP, OBJECTS[object], json_of(value), none())],
        Step::Delete(object) => vec![delete(OBJECTS[object])],
        Step::Member(true, object) => vec![Write::AddMember(OTHER, OBJECTS[object])],
        Step::Member(false, object) => vec![Write::RemoveMember(OTHER, OBJECTS[object])],
        Step::Subclass(true) => vec![Write::AddSubclass(OTHER, CLASS)],
        Step::Subclass(false) => vec![Write::RemoveSubclass(OTHER, CLASS)],
        Step::Mark(object, mark) => {
            vec![Write::Patch(REGISTRATION, OBJECTS[object], Json::of(&json!({ "deleted": mark })), none())]
        }
        Step::Create(number) => vec![Write::CreateObject { class: CLASS, uuid: Some(extra(number)) }],
        Step::DeleteObject(number) => vec![Write::DeleteObject(extra(number))],
        Step::Together(puts) => puts.into_iter().map(|(object, value)| put(object, value)).collect(),
        Step::Subscribe(kind) => return readers.push(subscribe(db, kind)),
        Step::Drop(_) if readers.is_empty() => return,
        Step::Drop(which) => return drop(readers.remove(which % readers.len())),
    };
    let writes: Vec<_> = writes.into_iter().map(|write| db.write(Caller::root(), write)).collect();
    block_on(async {
        for write in writes {
            drop(write.await); // a refusal changes nothing, which the comparison sees
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_readers_put_together_is_the_store_at_every_point(steps in proptest::collection::vec(step(), 1..60)) {
        let place = Place::embedded();
        let db = started(&place);
        let mut readers = Vec::new();
        for step in steps {
            run(&db, &mut readers, step);
            for reader in &mut readers {
                reader.catch_up();
                reader.compare(&db);
            }
        }
    }
}
