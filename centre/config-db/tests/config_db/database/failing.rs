//! An engine that fails: a fake that refuses to keep a group of writes, as a full disk does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchkey_config_db::engine::{Copying, EachRow, Engine, EngineError, ForeignRow};
use latchkey_config_db::{Caller, ConfigDb};
use latchkey_group_commit::Change;
use latchkey_test_support::block_on;
use serde_json::json;

use crate::database::rig::{X, Y, filled, next, put, ready, response, search, value, write};
use crate::place::Place;

struct FakeFailure {
    engine: Box<dyn Engine>,
    full: Arc<AtomicBool>,
}

impl Engine for FakeFailure {
    fn load(&mut self, each: EachRow<'_>) -> Result<(), EngineError> {
        self.engine.load(each)
    }
    fn begin(&mut self) -> Result<Vec<ForeignRow>, EngineError> {
        self.engine.begin()
    }
    fn commit(&mut self, rows: &[Change]) -> Result<(), EngineError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(EngineError("no space left on device".into()));
        }
        self.engine.commit(rows)
    }
    fn moment(&mut self) -> Result<Copying, EngineError> {
        self.engine.moment()
    }
}

#[test]
fn what_could_not_be_kept_was_never_there() {
    let place = Place::embedded();
    let full = Arc::new(AtomicBool::new(false));
    let db = ConfigDb::start(FakeFailure { engine: place.engine(), full: Arc::clone(&full) }).unwrap();
    filled(&db);
    write(&db, put(X, &json!(1))).unwrap();
    let mut watcher = search(&db, None);
    next(&mut watcher);
    full.store(true, Ordering::SeqCst);
    let writes: Vec<_> = (2..50).map(|number| db.write(Caller::root(), put(X, &json!(number)))).collect();
    let created = db.write(Caller::root(), put(Y, &json!(1)));
    block_on(async {
        for write in writes {
            let refusal = write.await.unwrap_err();
            assert!(refusal.status() == 503 && refusal.to_string().contains("no space left"), "{refusal}");
        }
        assert_eq!(created.await.unwrap_err().status(), 503);
    });
    assert_eq!((value(&db, X), value(&db, Y)), (Some(json!(1)), None));
    assert_eq!(ready(&mut watcher, &Caller::root()), None);
    full.store(false, Ordering::SeqCst);
    write(&db, put(X, &json!(7))).unwrap();
    assert_eq!(response(&next(&mut watcher)).body, Some(json!(7)));
    drop((db, watcher));
    let db = ConfigDb::start(place.engine()).unwrap();
    assert_eq!((value(&db, X), value(&db, Y)), (Some(json!(7)), None));
}
