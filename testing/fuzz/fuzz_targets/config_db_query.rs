//! What the configuration database reads of a request before it looks for anything: path, query, preconditions, frames of
//! notifications.
#![no_main]

use latchkey_config_db::paths::Resource;
use latchkey_config_db::watch::Target;
use latchkey_config_db::{Json, Preconditions, Query, Uuid};
use latchkey_factory_plus::notify::Request;
use libfuzzer_sys::fuzz_target;

const ETAG: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");

fuzz_target!(|bytes: &[u8]| {
    // A path, a query, If-Match, If-None-Match, each on a line, and a value.
    let mut lines = bytes.splitn(5, |byte| *byte == b'\n');
    let [path, query, if_match, if_none_match] =
        [(); 4].map(|()| String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned());
    let value = lines.next().unwrap_or_default();

    preconditions(&if_match, &if_none_match);
    let query = Query::parse(&query);
    if let (Ok(query), Ok(value)) = (&query, Json::parse(value)) {
        let value = value.value();
        if query.matches(&value) {
            let text = value.to_string();
            for (name, found) in query.project_value(&value) {
                assert!(name != "uuid" && !found.is_null() && text.contains(&found.to_string()), "{name}: {found}");
            }
        }
    }
    if let Ok(resource) = Resource::parse(&path) {
        let _ = resource.read(Preconditions::default(), query.unwrap_or_default());
        let _ = resource.post(value);
        let _ = resource.delete(Preconditions::default());
    }
    if let Ok(request) = serde_json::from_slice::<Request>(value) {
        let _ = Target::of(request);
    }
});

fn preconditions(if_match: &str, if_none_match: &str) {
    let Ok(read) = Preconditions::parse(Some(if_match), Some(if_none_match)) else { return };
    // One of the two that names nothing that is there.
    assert!(!read.match_holds(None), "{if_match}");
    assert!(read.none_match_holds(None), "{if_none_match}");
    let names = |header: &str| header.trim() == "*" || header.contains(&ETAG.to_string());
    assert!(!read.match_holds(Some(ETAG)) || names(if_match), "{if_match}");
    assert!(read.none_match_holds(Some(ETAG)) || names(if_none_match), "{if_none_match}");
    assert_eq!(read.hold(Some(ETAG)), read.match_holds(Some(ETAG)) && read.none_match_holds(Some(ETAG)));
}
