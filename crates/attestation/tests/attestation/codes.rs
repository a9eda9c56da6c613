//! Reason codes are an interface: operators search for them, dashboards count them.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::BTreeSet;

use latchkey_attestation::refusal::{CoarseReason, ReasonCode, Refusal};

#[test]
fn codes_are_distinct_kebab_case_and_read_back() {
    let mut seen = BTreeSet::new();
    for &code in ReasonCode::ALL {
        let text = code.as_str();
        assert!(seen.insert(text), "{text} is there twice");
        assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{text}");
        assert_eq!(text.parse(), Ok(code));
        let json = serde_json::to_string(&code).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ReasonCode>(&json).unwrap(), code);
    }
    assert!("no-such-code".parse::<ReasonCode>().is_err());
}

#[test]
fn every_remedy_is_a_sentence_that_names_something_to_do() {
    for &code in ReasonCode::ALL {
        let remedy = code.remedy();
        let words = remedy.split(' ').count();
        assert!(words >= 6, "{code}: {remedy}");
        assert!(!remedy.ends_with('.') && remedy.starts_with(char::is_lowercase), "{code}: {remedy}");
        assert!(code.coarse().remedy().split(' ').count() >= 6);
    }
}

#[test]
fn a_refusal_reads_as_code_detail_and_remedy() {
    let refusal = Refusal::new(ReasonCode::EkNotPinned, "EK 00ff");
    assert_eq!(
        refusal.to_string(),
        "ek-not-pinned: EK 00ff (add this TPM's EK digest to the policy's `pinned-ek` rule, if the machine is yours)"
    );
    let json = serde_json::to_value(&refusal).unwrap();
    assert_eq!(json, serde_json::json!({"code": "ek-not-pinned", "detail": "EK 00ff"}));
    assert_eq!(refusal.coarse(), CoarseReason::TpmNotTrusted);
}

#[test]
fn coarse_reasons_are_the_words_on_the_wire() {
    for &code in ReasonCode::ALL {
        let coarse = code.coarse();
        assert_eq!(serde_json::to_string(&coarse).unwrap(), format!("\"{coarse}\""));
    }
}

#[test]
fn a_peer_cannot_write_to_the_operators_terminal() {
    let json = r#"{"ek_public":"AAAA","ak_public":"AAAA","\u001b[2J\nadmitted: yes":1}"#;
    let refusal = latchkey_attestation::AttesterIdentity::from_json(json.as_bytes()).unwrap_err();
    assert!(refusal.detail().contains("admitted: yes"), "the field is named: {refusal:?}");
    assert!(!refusal.to_string().contains(char::is_control), "{refusal:?}");
}

#[test]
fn a_detail_is_cut_at_a_character() {
    let refusal = Refusal::new(ReasonCode::EkNotPinned, "é".repeat(1000));
    assert_eq!(refusal.detail().len(), 1024);
}
