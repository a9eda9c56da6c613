//! What `PostgreSQL` adds: two processes' databases on one server, and a server that goes away and comes back.

use latchkey_config_db::{Caller, ConfigDb, Json, Outcome, Preconditions, Write};
use latchkey_test_support::{block_on, until};
use serde_json::json;

use crate::database::rig::{APP, X, Y, delete, filled, next, put, response, search, value, write};
use crate::place::Place;

#[test]
fn either_of_two_databases_tells_its_watchers_of_the_others_writes() {
    let Some(place) = Place::postgres() else { return };
    let (one, other) = (ConfigDb::start(place.engine()).unwrap(), ConfigDb::start(place.engine()).unwrap());
    filled(&one);
    let (mut of_one, mut of_other) = (search(&one, None), search(&other, None));
    next(&mut of_one);
    next(&mut of_other);
    for round in 0..20 {
        write(&one, put(X, &json!(round))).unwrap();
        assert_eq!(response(&next(&mut of_other)).body, Some(json!(round)));
        assert_eq!(value(&other, X), Some(json!(round)));
        write(&other, put(Y, &json!(round))).unwrap();
        assert_eq!(response(&next(&mut of_one)).body, Some(json!(round)), "its own");
        assert_eq!(response(&next(&mut of_one)).body, Some(json!(round)), "the other's");
        next(&mut of_other);
    }
    write(&other, delete(X)).unwrap();
    assert_eq!(response(&next(&mut of_one)).status, 404);
}

#[test]
fn of_writers_of_two_databases_each_sees_what_the_other_did() {
    let Some(place) = Place::postgres() else { return };
    let (one, other) = (ConfigDb::start(place.engine()).unwrap(), ConfigDb::start(place.engine()).unwrap());
    filled(&one);
    write(&one, put(X, &json!({}))).unwrap();
    // Patches of different keys, from both at once: one that was decided on an old entry would lose the other's keys.
    let patches = |db: &ConfigDb, name: &str| -> Vec<_> {
        let patch = |number: i32| Json::of(&json!({ format!("{name}{number}"): number }));
        (0..50)
            .map(|number| db.write(Caller::root(), Write::Patch(APP, X, patch(number), Preconditions::default())))
            .collect()
    };
    let waiting = [patches(&one, "a"), patches(&other, "b")];
    block_on(async {
        for patch in waiting.into_iter().flatten() {
            assert_eq!(patch.await, Ok(Outcome::Done));
        }
    });
    until("both to show all hundred keys", || {
        let keys = |db| value(db, X).map_or(0, |value| value.as_object().map_or(0, serde_json::Map::len));
        (keys(&one) == 100 && keys(&other) == 100).then_some(())
    });
}

#[test]
fn while_the_server_is_gone_writes_are_refused_and_reads_go_on() {
    let Some(mut place) = Place::postgres() else { return };
    let (one, other) = (ConfigDb::start(place.engine()).unwrap(), ConfigDb::start(place.engine()).unwrap());
    filled(&one);
    write(&one, put(X, &json!(1))).unwrap();
    place.kill_server();
    let refusal = write(&one, put(X, &json!(2))).unwrap_err();
    assert!(refusal.status() == 503 && refusal.to_string().contains("PostgreSQL"), "{refusal}");
    assert_eq!(value(&one, X), Some(json!(1)));
    place.start_server();
    write(&one, put(X, &json!(3))).unwrap();
    // The other one writes nothing: it gets its connection back by itself.
    until("the other database to be told", || (value(&other, X) == Some(json!(3))).then_some(()));
    drop((one, other));
    let again = ConfigDb::start(place.engine()).unwrap();
    assert_eq!(value(&again, X), Some(json!(3)), "the acknowledged write survived the crash");
}
