//! A dump that somebody loads: what it lists is so afterwards, and a caller without rights loads nothing.
#![no_main]

use latchkey_config_db::scratch::Scratch;
use latchkey_config_db::{Caller, DEEPEST_JSON, Dump, Json, Uuid, Write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(dump) = Dump::parse(bytes) else { return };
    let mut scratch = Scratch::default();
    let objects = |scratch: &Scratch| scratch.model().objects().collect::<Vec<_>>();
    let write = Write::Load(Box::new(dump.clone()));
    let before = objects(&scratch);
    let stranger = Caller::of(Some(Uuid::NIL), Vec::new().into());
    assert!(scratch.write(&stranger, &write).is_err_and(|refusal| refusal.status() == 403));
    assert_eq!(objects(&scratch), before);
    let Ok(loaded) = scratch.write(&Caller::root(), &write) else { return };
    assert_eq!(loaded.status(), 200);
    for (class, members) in &dump.objects {
        for (uuid, listed) in members {
            let object = scratch.model().object(*uuid).expect("an object that was loaded");
            assert!(object.class == *class && !object.deleted && scratch.model().is_member(*class, *uuid));
            for wanted in listed.subclass_of.iter().flatten() {
                assert!(scratch.model().is_subclass(*wanted, *uuid));
            }
        }
    }
    for (application, entries) in &dump.configs {
        assert!(entries.is_empty() || scratch.model().is_application(*application));
        assert!(entries.values().all(|value| Json::of(value).depth() <= DEEPEST_JSON));
    }
    let once = objects(&scratch);
    assert!(scratch.write(&Caller::root(), &write).is_ok(), "it is loaded again");
    assert_eq!(objects(&scratch), once);
});
