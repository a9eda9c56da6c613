//! What the cluster manager reads of requests, of repositories and of what edges report.
#![no_main]

use latchkey_cluster_manager::links::{Claim, Link, Token};
use latchkey_cluster_manager::machine::SetupStatus;
use latchkey_cluster_manager::seal::{Place, SealedSecret, SealingKey};
use latchkey_factory_plus::manager::{LinkRequest, ManifestsRequest, RedeemRequest};
use latchkey_factory_plus_server::read_json;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    // The place of a secret on a line, and a body.
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (place, body) = (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default());
    bodies(body);
    token(&place);
    let Ok(text) = str::from_utf8(body) else { return };
    let _ = SealingKey::of(text, 1_800_000_000);
    let parts: Vec<&str> = place.splitn(3, '/').collect();
    if let [namespace, name, key] = *parts
        && let Ok(place) = Place::new(namespace, name, key)
    {
        for part in [namespace, name, key] {
            assert!(!part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\\', '\0']), "{part:?}");
        }
        manifest(&place, text);
    }
});

fn bodies(body: &[u8]) {
    let _ = read_json::<LinkRequest>(body);
    let _ = read_json::<ManifestsRequest>(body);
    if let Ok(request) = read_json::<RedeemRequest>(body) {
        let _ = Claim::read(&request);
    }
    if let Ok(value) = read_json::<Value>(body) {
        let _ = SetupStatus::read(&value);
        let _ = serde_json::from_value::<Link>(value);
    }
}

/// One text for each token: who knows another spelling of it knows the token.
fn token(text: &str) {
    if let Ok(token) = Token::read(text) {
        assert!(*token.text() == text, "two spellings");
    }
}

/// What is written again is what was read.
fn manifest(place: &Place, text: &str) {
    if let Ok(read) = SealedSecret::read(place, text)
        && let Ok(Some(written)) = read.write()
    {
        assert!(SealedSecret::read(place, &written).is_ok_and(|again| again == read), "{written}");
    }
}
