//! What every engine does.

use latchkey_config_db::{Answer, Caller, ConfigDb, Outcome, Read, Write};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL, RANK_1};
use latchkey_factory_plus::uuids::special::UNOWNED;
use latchkey_test_support::block_on;
use serde_json::json;

use crate::database::engines::on_each_engine;
use crate::database::rig::{CLASS, OBJECTS, X, Y, delete, filled, put, value, write};
use crate::place::Place;

fn start(place: &Place) -> ConfigDb {
    ConfigDb::start(place.engine()).unwrap()
}

on_each_engine! {
    an_empty_database_has_what_every_database_has,
    what_was_acknowledged_is_there_after_a_restart,
    writes_are_done_in_the_order_of_the_calls_and_seen_when_acknowledged,
    of_many_creators_one_creates,
}

fn an_empty_database_has_what_every_database_has(place: &Place) {
    let first = start(place).read(&Caller::root(), &Read::Objects).unwrap();
    let Answer::List(objects) = &first else { panic!("{first:?}") };
    assert!([APPLICATION, INDIVIDUAL, RANK_1, UNOWNED].iter().all(|object| objects.contains(object)));
    assert_eq!(start(place).read(&Caller::root(), &Read::Objects).unwrap(), first, "once");
}

fn what_was_acknowledged_is_there_after_a_restart(place: &Place) {
    let db = start(place);
    filled(&db);
    write(&db, put(X, &json!({"a": [1, null, "ü"]}))).unwrap();
    write(&db, put(Y, &json!(1))).unwrap();
    write(&db, delete(Y)).unwrap();
    let all = |db: &ConfigDb| {
        let reads = [Read::Objects, Read::Class(CLASS), Read::Class(INDIVIDUAL), Read::Class(RANK_1)];
        reads.map(|read| db.read(&Caller::root(), &read).unwrap())
    };
    let (before, value_before) = (all(&db), value(&db, X));
    drop(db);
    let db = start(place);
    assert_eq!((all(&db), value(&db, X), value(&db, Y)), (before, value_before, None));
}

fn writes_are_done_in_the_order_of_the_calls_and_seen_when_acknowledged(place: &Place) {
    let db = start(place);
    filled(&db);
    let writes: Vec<_> = (0..300).map(|number| db.write(Caller::root(), put(X, &json!(number)))).collect();
    block_on(async {
        for (number, write) in writes.into_iter().enumerate() {
            write.await.unwrap();
            assert!(value(&db, X).unwrap().as_u64().unwrap() >= number as u64);
        }
    });
    assert_eq!(value(&db, X), Some(json!(299)));
}

fn of_many_creators_one_creates(place: &Place) {
    let db = start(place);
    filled(&db);
    let create_only = || latchkey_config_db::Preconditions::parse(None, Some("*")).unwrap();
    let json = latchkey_config_db::Json::of(&json!(1));
    let app = crate::database::rig::APP;
    let writes = (0..50).map(|_| db.write(Caller::root(), Write::Put(app, X, json.clone(), create_only())));
    let writes: Vec<_> = writes.collect();
    let outcomes = block_on(async {
        let mut outcomes = Vec::new();
        for write in writes {
            outcomes.push(write.await);
        }
        outcomes
    });
    assert_eq!(outcomes[0], Ok(Outcome::Created));
    assert!(outcomes[1..].iter().all(|outcome| outcome.as_ref().is_err_and(|refusal| refusal.status() == 412)));
}

#[test]
fn a_copy_is_a_database_of_one_moment() {
    let place = Place::embedded();
    let db = start(&place);
    filled(&db);
    for object in OBJECTS {
        write(&db, put(object, &json!(1))).unwrap();
    }
    block_on(db.copy_to(place.path("copy"))).unwrap();
    write(&db, put(X, &json!(2))).unwrap();
    let copy = ConfigDb::start(latchkey_config_db::engine::Embedded::at(place.path("copy"))).unwrap();
    assert_eq!(value(&copy, X), Some(json!(1)));
    assert!(block_on(db.copy_to(place.path("missing/copy"))).is_err());
}
