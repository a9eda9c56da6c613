//! What a service reads of a request before it knows who sends it: path, query, UPN, JSON.
#![no_main]

use latchkey_factory_plus::Upn;
use latchkey_factory_plus_server::{query_pairs, read_json, segments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Whatever it is, it has a value or an error.
    let _ = read_json::<serde_json::Value>(bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    for segment in segments(text).unwrap_or_default() {
        let elsewhere = segment.is_empty() || segment == "." || segment == ".." || segment.contains(['/', '\\', '\0']);
        assert!(!elsewhere, "{segment:?}");
    }
    assert!(query_pairs(text).unwrap_or_default().len() <= 64, "bound");
    if let Ok(upn) = text.parse::<Upn>() {
        assert!(upn.as_str() == text && text.len() <= Upn::LONGEST, "{text:?}");
        assert_eq!(format!("{}@{}", upn.name(), upn.realm()), text);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    }
});
