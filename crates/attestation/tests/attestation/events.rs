//! The events behind a manifest's values: they explain these values or are refused.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::{booted, image_json, policy_for, references};
use latchkey_attestation::reference::ExpectedEvent;
use latchkey_attestation::{Digest, PcrSet, ReasonCode, ReferenceValues, Refusal};
use serde_json::{Value, json};

fn event(pcr: u8, byte: u8) -> ExpectedEvent {
    ExpectedEvent::new(pcr, "EV_IPL", "content of section .linux", Digest([byte; 32]))
}

/// An image whose PCR 4 has the value that these events make, and that tells them.
fn image(events: &[ExpectedEvent]) -> Value {
    let mut image = image_json(1);
    image["machines"][0]["pcrs"]["4"]["value"] = json!(ExpectedEvent::fold(events, 4));
    image["machines"][0]["events"] = json!(events);
    image
}

fn read(image: &Value) -> Result<ReferenceValues, Refusal> {
    let manifest = json!({"version": 2, "name": "test", "serial": 7, "images": [image]});
    ReferenceValues::from_json(manifest.to_string().as_bytes())
}

fn refused(image: &Value, why: &str) {
    let refusal = read(image).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ReferenceMalformed);
    assert!(refusal.detail().contains(why), "{refusal}");
}

#[test]
fn events_that_make_the_values_are_read_and_written() {
    let values = read(&image(&[event(4, 1), event(4, 2)])).unwrap();
    let machine = &values.images()[0].machines()[0];
    assert_eq!(machine.events(), [event(4, 1), event(4, 2)]);
    assert_eq!(machine.explained(), PcrSet::of(&[4]).unwrap());
    assert_eq!(ReferenceValues::from_json(values.to_json().as_bytes()).unwrap(), values);
}

/// Words that explain another value than the one compared would send whoever reads a refusal the wrong way.
#[test]
fn events_that_do_not_make_the_values_are_refused() {
    let wrong = "the events of PCR 4 do not make its value";
    let mut missing = image(&[event(4, 1), event(4, 2)]);
    missing["machines"][0]["events"].as_array_mut().unwrap().pop();
    refused(&missing, wrong);
    let mut swapped = image(&[event(4, 1), event(4, 2)]);
    swapped["machines"][0]["events"].as_array_mut().unwrap().reverse();
    refused(&swapped, wrong);
    refused(&image(&[event(4, 1), event(9, 1)]), "the events of PCR 9 do not make its value");
    refused(&image(&[event(4, 1), event(15, 1)]), "the events of PCR 15 do not make its value");
}

#[test]
fn words_that_could_steer_a_terminal_or_flood_it_are_refused() {
    for (field, words) in [
        ("what", "\u{1b}[2J".to_owned()),
        ("what", "\u{202e}linux".to_owned()),
        ("what", "x".repeat(1025)),
        ("type", String::new()),
    ] {
        let mut image = image(&[event(4, 1)]);
        image["machines"][0]["events"][0][field] = json!(words);
        refused(&image, "no words on one line, or too many");
    }
    let many: Vec<_> = (0..=255).map(|byte| event(4, byte)).chain([event(4, 0)]).collect();
    refused(&image(&many), "257 events, at most 256 are read");
    let mut unknown = image(&[event(4, 1)]);
    unknown["machines"][0]["events"][0]["data"] = json!("00");
    refused(&unknown, "unknown field");
}

#[test]
fn words_from_logs_are_made_fit_for_a_manifest() {
    let made = ExpectedEvent::new(9, "EV_EVENT_TAG", &"\u{7}ü".repeat(2000), Digest::ZERO);
    assert!(made.what.len() <= 1024 && made.what.ends_with('…') && !made.what.contains('\u{7}'), "{}", made.what);
    assert_eq!(ExpectedEvent::new(9, "EV_IPL", "", Digest::ZERO).what, "EV_IPL");
}

#[test]
fn the_machine_that_a_refusal_compares_with_is_the_closest_one() {
    let mut tpm = booted(1);
    tpm.set_pcr(9, [9; 32]);
    let policy = policy_for(&tpm);
    let references = references(&policy, &[image_json(1), image_json(2)]);
    let evidence = support::verified(&policy, &tpm).unwrap();
    let closest = policy.closest(evidence.pcrs(), &references).unwrap();
    assert_eq!(closest.pcrs()[&4].value, Digest([1; 32]));
}
