//! What the database holds, and what it is asked.

use latchkey_config_db::Uuid;
use serde_json::{Value, json};

/// Of the 10 000 entries.
pub(crate) const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
/// Of those that are watched.
pub(crate) const WATCHED: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000002");
pub(crate) const ENTRIES: u32 = 10_000;
pub(crate) const WATCHED_ENTRIES: u32 = 100;

pub(crate) fn object(number: u32) -> Uuid {
    Uuid::NIL.named(&number.to_string())
}

/// About 200 bytes.
pub(crate) fn value(number: u32) -> Value {
    json!({
        "chart": object(7), "name": format!("Cluster_{number}"), "namespace": "fplus-edge",
        "hosts": [{"hostname": "a", "arch": "amd64", "k8s_version": "v1.31.2", "control_plane": true}], "n": number,
    })
}

pub(crate) type Parts = (&'static str, String, Option<(&'static str, String)>);

pub(crate) fn get(number: u32) -> Parts {
    ("GET", path(APP, number, ENTRIES), None)
}

/// Another value each time, by `change`.
pub(crate) fn put(number: u32, change: u32) -> Parts {
    ("PUT", path(APP, number, ENTRIES), Some(("application/json", value(ENTRIES + change).to_string())))
}

pub(crate) fn patch(number: u32, change: u32) -> Parts {
    let patch = json!({ "n": format!("patched {change}") });
    ("PATCH", path(APP, number, ENTRIES), Some(("application/merge-patch+json", patch.to_string())))
}

pub(crate) fn watched_put(number: u32, change: u32) -> Parts {
    let value = value(WATCHED_ENTRIES + change).to_string();
    ("PUT", path(WATCHED, number, WATCHED_ENTRIES), Some(("application/json", value)))
}

/// All over the entries, in no order of theirs.
fn path(application: Uuid, number: u32, entries: u32) -> String {
    format!("/v2/app/{application}/object/{}", object(number.wrapping_mul(7919) % entries))
}
