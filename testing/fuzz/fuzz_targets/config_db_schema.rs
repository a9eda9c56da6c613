//! A schema that somebody wrote, and an entry: nothing is fetched, nothing takes for ever, and it does not matter which of the two
//! comes first.
#![no_main]

use latchkey_config_db::scratch::Scratch;
use latchkey_config_db::{Caller, Json, Preconditions, Uuid, Write};
use latchkey_factory_plus::uuids::application::CONFIG_SCHEMA;
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL};
use libfuzzer_sys::fuzz_target;

const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");

fuzz_target!(|bytes: &[u8]| {
    // A schema on the first line, and a value.
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(schema), Ok(value)) = (Json::parse(&bytes[..end]), Json::parse(&bytes[end..])) else { return };
    let put = |application, object, json: &Json| Write::Put(application, object, json.clone(), Preconditions::default());
    let (schema, value) = (put(CONFIG_SCHEMA, APP, &schema), put(APP, X, &value));
    let [schema_first, value_first] = [[&schema, &value], [&value, &schema]].map(|order| {
        let mut scratch = Scratch::default();
        for (class, uuid) in [(APPLICATION, APP), (INDIVIDUAL, X)] {
            let made = scratch.write(&Caller::root(), &Write::CreateObject { class, uuid: Some(uuid) });
            assert!(made.is_ok_and(|made| made.status() == 201));
        }
        order.map(|write| scratch.write(&Caller::root(), write).map_or_else(|why| why.status(), |done| done.status()))
    });
    let expected = match schema_first {
        [201, 201] => [201, 201],
        // The value is refused, or else the schema.
        [201, 422] => [201, 409],
        // A schema that is none, or a value that is too deep.
        [422, 201] => [201, 422],
        [422, 422] => [422, 422],
        other => panic!("{other:?}"),
    };
    assert!(value_first == expected || value_first == [422, 201], "{schema_first:?}, {value_first:?}");
});
