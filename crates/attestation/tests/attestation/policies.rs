//! Policies and reference values fail closed when they are loaded: what is missing, empty, unknown or contradictory.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::{image_json, pinned, policy, policy_json, reference_json, reference_values};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{AuthenticManifest, EkDigest, LockExpectation, Policy, ReferenceValues, References};
use serde_json::{Value, json};

fn sample() -> Value {
    policy_json(pinned(&[digest(1)]))
}

fn digest(number: u8) -> EkDigest {
    EkDigest::from_hex(&support::value(number)).unwrap()
}

fn load(json: &Value) -> Result<Policy, Refusal> {
    Policy::from_json(json.to_string().as_bytes())
}

fn load_references(json: &Value) -> Result<ReferenceValues, Refusal> {
    ReferenceValues::from_json(json.to_string().as_bytes())
}

/// `json` with the value at `pointer` replaced, or removed.
fn with(json: &Value, pointer: &str, new: Option<Value>) -> Value {
    let mut json = json.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (new, json.pointer(pointer)) {
        (Some(value), Some(_)) => *json.pointer_mut(pointer).unwrap() = value,
        (Some(value), None) => {
            drop(json.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.into(), value));
        }
        (None, _) => drop(json.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap()),
    }
    json
}

#[test]
fn the_sample_policy_is_accepted() {
    let policy = load(&sample()).unwrap();
    assert_eq!(policy.selection().iter().collect::<Vec<_>>(), [0, 4, 7, 9, 11, 12, 13, 15]);
}

#[test]
fn firmware_that_a_manifest_does_not_know_is_held_against_the_record_by_what_the_policy_says() {
    // Without a word about it: what is warned about, as far as it is the firmware's.
    let policy = load(&with(&sample(), "/pcrs/warn", Some(json!([0, 2, 5])))).unwrap();
    let rule = policy.firmware_change();
    assert_eq!((rule.warned().iter().collect::<Vec<_>>(), rule.refused().is_empty()), (vec![0, 2], true));
    let policy = load(&with(&sample(), "/firmware_change", Some(json!({"warn": [1], "refuse": [2, 3]})))).unwrap();
    let rule = policy.firmware_change();
    assert_eq!(rule.warned().iter().chain(rule.refused().iter()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(policy.selection().iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 7, 9, 11, 12, 13, 15], "they are quoted");
}

/// What the manifest enforces, it decides on. What it only warns about is the record's, or a policy's `refuse` would be switched
/// off by a manifest that was recorded with these registers as warnings.
#[test]
fn a_manifest_that_only_warns_about_firmware_takes_nothing_from_the_record() {
    let mut image = image_json(1);
    image["machines"][0]["pcrs"]["3"] = json!({"value": support::value(3), "rule": "enforce"});
    for firmware in [1, 9] {
        let mut tpm = support::booted(1);
        // PCR 0 has a value in the manifest that is warned about: this one, or another.
        for (pcr, value) in [(0, firmware), (2, 2), (3, 3)] {
            tpm.set_pcr(pcr, [value; 32]);
        }
        let text = json!({"warn": [1], "refuse": [0, 2, 3]});
        let old = policy_json(pinned(&[support::digest_of(&tpm)]));
        let policy = load(&with(&old, "/firmware_change", Some(text))).unwrap();
        let admit = |by: &Policy, image: &Value| {
            let references = support::references(by, std::slice::from_ref(image));
            let verified = support::verified(by, &tpm).unwrap();
            by.validate(&verified, &references, LockExpectation::Unlocked, support::NOW).unwrap()
        };
        let admission = admit(&policy, &image);
        assert_eq!(admission.enforced().iter().collect::<Vec<_>>(), [3, 4, 7, 9, 11, 12, 13]);
        let values = policy.firmware_of(&admission);
        assert_eq!(values.set().iter().collect::<Vec<_>>(), [0, 1, 2], "the manifest decides on PCR 3 alone");
        assert_eq!(values.value(0).unwrap().to_string(), support::value(firmware));
        assert!(policy.firmware_not_quoted(&admission).is_empty());
        // Evidence for a policy that did not ask for them says nothing of these registers.
        let admission = admit(&load(&old).unwrap(), &image_json(1));
        assert_eq!(policy.firmware_not_quoted(&admission).iter().collect::<Vec<_>>(), [2, 3]);
    }
}

#[test]
fn a_rule_about_firmware_that_contradicts_itself_is_refused() {
    for bad in [
        json!({"warn": [2], "refuse": [2]}),
        json!({"warn": [5], "refuse": []}),
        json!({"warn": [], "refuse": [16]}),
        json!({"warn": []}),
        json!({"warn": [], "refuse": [], "ignore": [1]}),
        json!("refuse"),
    ] {
        let refusal = load(&with(&sample(), "/firmware_change", Some(bad.clone()))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed, "{bad}");
    }
    let enforced = with(&sample(), "/pcrs/enforce", Some(json!([2, 11])));
    let refusal = load(&with(&enforced, "/firmware_change", Some(json!({"warn": [], "refuse": [2]})))).unwrap_err();
    assert!(refusal.detail().contains("a manifest decides"), "{refusal}");
}

#[test]
fn an_empty_policy_is_refused() {
    let cases = [
        ("/ak_trust", json!([])),
        ("/ak_trust/0/ek_sha256", json!([])),
        ("/ak_trust/0", json!({"kind": "ek-chain", "roots": []})),
        ("/ak_algorithms", json!([])),
        ("/ek_templates", json!([])),
        ("/pcrs/enforce", json!([])),
        ("/references", json!([])),
    ];
    for (pointer, value) in cases {
        let refusal = load(&with(&sample(), pointer, Some(value))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyEmpty, "{pointer}");
    }
    assert_eq!(load(&json!({})).unwrap_err().code(), ReasonCode::PolicyMalformed);
    assert_eq!(Policy::from_json(b"").unwrap_err().code(), ReasonCode::PolicyMalformed);
}

#[test]
fn the_policy_of_nobody_is_none_that_a_file_can_say() {
    let nobody = Policy::of_nobody();
    assert!(nobody.is_of_nobody() && !load(&sample()).unwrap().is_of_nobody());
    assert_eq!((nobody.trusted_by().count(), References::none().iter().count()), (0, 0));
    assert!(References::new(&nobody, Vec::new()).is_ok(), "it names no manifest");
}

#[test]
fn a_policy_that_lacks_a_field_is_refused() {
    for field in ["ek_templates", "ak_trust", "ak_algorithms", "pcrs", "lock", "references", "version"] {
        let refusal = load(&with(&sample(), &format!("/{field}"), None)).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed, "{field}");
    }
    for field in ["/pcrs/enforce", "/pcrs/warn", "/references/0/minimum_version", "/ak_trust/0/ek_sha256"] {
        let refusal = load(&with(&sample(), field, None)).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed, "{field}");
    }
}

#[test]
fn an_unknown_field_of_a_policy_is_refused_at_every_level() {
    for place in ["/extra", "/ak_trust/0/extra", "/pcrs/extra", "/references/0/extra"] {
        let refusal = load(&with(&sample(), place, Some(json!(1)))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed, "{place}");
        assert!(refusal.detail().contains("extra"), "{refusal}");
    }
}

#[test]
fn an_unknown_policy_version_is_refused_as_such() {
    for version in [0, 1, 2, 4, u64::MAX] {
        let newer = with(&sample(), "/version", Some(json!(version)));
        let newer = with(&newer, "/something_new", Some(json!(true)));
        assert_eq!(load(&newer).unwrap_err().code(), ReasonCode::PolicyVersionUnknown);
    }
}

#[test]
fn a_section_that_is_null_is_no_section_that_is_left_out() {
    for section in ["/snp", "/tdx", "/firmware_change"] {
        let mut policy = sample();
        policy[&section[1..]] = Value::Null;
        assert_eq!(load(&policy).unwrap_err().code(), ReasonCode::PolicyMalformed, "{section}");
    }
}

#[test]
fn there_is_no_trust_rule_none() {
    for kind in ["none", "any", "tofu", "ak-certificate"] {
        let json = with(&sample(), "/ak_trust/0", Some(json!({"kind": kind})));
        assert_eq!(load(&json).unwrap_err().code(), ReasonCode::PolicyMalformed);
    }
}

#[test]
fn contradictory_and_duplicate_pcrs_are_refused() {
    let cases = [
        ("/pcrs/enforce", json!([4, 4])),
        ("/pcrs/enforce", json!([7, 4])),
        ("/pcrs/enforce", json!([24])),
        ("/pcrs/enforce", json!([4, 15])),
        ("/pcrs/warn", json!([4])),
        ("/pcrs/warn", json!([15])),
        ("/ek_templates", json!(["ecc-p256", "ecc-p256"])),
        ("/ek_templates", json!(["any"])),
        ("/ek_templates", json!("ecc-p256")),
        ("/lock", json!("none")),
        ("/lock", json!("pcr-14")),
        ("/ak_algorithms", json!(["rsassa-2048-sha1"])),
        ("/references/0/minimum_version", json!("1.0")),
        ("/references/0/manifest", json!("../etc/passwd")),
        ("/ak_trust/0/ek_sha256", json!([digest(1), digest(1)])),
        ("/denied_ek_sha256", json!([digest(1), digest(1)])),
        ("/ak_trust/0/ek_sha256", json!(["AB"])),
    ];
    for (pointer, value) in cases {
        let refusal = load(&with(&sample(), pointer, Some(value.clone()))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed, "{pointer} = {value}");
    }
    let rule = |minimum| json!({"manifest": "a", "minimum_version": minimum, "unsigned": "trust-local-file"});
    let twice = json!([rule("1.0.0"), rule("2.0.0")]);
    assert_eq!(load(&with(&sample(), "/references", Some(twice))).unwrap_err().code(), ReasonCode::PolicyMalformed);
}

/// Anybody may reset them, so that no value of theirs proves anything.
#[test]
fn registers_that_anybody_may_reset_cannot_be_ruled() {
    for register in [16, 23] {
        for list in ["/pcrs/enforce", "/pcrs/warn"] {
            let refusal = load(&with(&sample(), list, Some(json!([register])))).unwrap_err();
            assert_eq!(refusal.code(), ReasonCode::PolicyMalformed);
            assert!(refusal.detail().contains("reset by anybody"), "{refusal}");
        }
        let mut image = image_json(1);
        image["machines"][0]["pcrs"][register.to_string()] = json!({"value": support::value(1), "rule": "enforce"});
        let refusal = load_references(&reference_json(&[image])).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ReferenceMalformed);
    }
}

#[test]
fn duplicate_keys_are_refused() {
    let json = sample().to_string();
    let twice = json.replacen("\"lock\":\"pcr-15\"", "\"lock\":\"pcr-15\",\"lock\":\"pcr-15\"", 1);
    assert_ne!(json, twice);
    assert_eq!(Policy::from_json(twice.as_bytes()).unwrap_err().code(), ReasonCode::PolicyMalformed);
}

#[test]
fn unusable_roots_are_refused() {
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for root in ["", "AAAA", "no base64!", pem, "-----BEGIN CERTIFICATE-----\n", &pem.repeat(2)] {
        let rule = json!({"kind": "ek-chain", "roots": [root]});
        let refusal = load(&with(&sample(), "/ak_trust/0", Some(rule))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyRootInvalid, "{root:?}");
    }
}

#[test]
fn giant_files_are_refused_before_they_are_read() {
    let giant = vec![b' '; 1024 * 1024 + 1];
    assert_eq!(Policy::from_json(&giant).unwrap_err().code(), ReasonCode::PolicyMalformed);
    assert_eq!(ReferenceValues::from_json(&giant).unwrap_err().code(), ReasonCode::ReferenceMalformed);
    let deep = "[".repeat(100_000);
    assert_eq!(Policy::from_json(deep.as_bytes()).unwrap_err().code(), ReasonCode::PolicyMalformed);
}

#[test]
fn empty_reference_values_are_refused() {
    let none = reference_json(&[]);
    assert_eq!(load_references(&none).unwrap_err().code(), ReasonCode::ReferenceEmpty);
    let enforces_nothing = with(&image_json(1), "/machines/0/pcrs", Some(json!({})));
    assert_eq!(load_references(&reference_json(&[enforces_nothing])).unwrap_err().code(), ReasonCode::ReferenceEmpty);
    let only_warns = json!({"0": {"value": support::value(1), "rule": "warn"}});
    let only_warns = with(&image_json(1), "/machines/0/pcrs", Some(only_warns));
    assert_eq!(load_references(&reference_json(&[only_warns])).unwrap_err().code(), ReasonCode::ReferenceEmpty);
}

#[test]
fn malformed_reference_values_are_refused() {
    let good = reference_json(&[image_json(1)]);
    let value = support::value(1);
    let cases = [
        ("/name", json!("")),
        ("/name", json!("a/b")),
        ("/serial", json!(0)),
        ("/serial", json!(1_u64 << 53)),
        ("/serial", json!(-1)),
        ("/images/0/source", json!("guessed")),
        ("/extra", json!(1)),
        ("/images/0/extra", json!(1)),
        ("/images/0/version", json!("one")),
        ("/images/0/name", json!("Upper Case")),
        ("/images/0/machines/0/pcrs/04", json!({"value": value, "rule": "enforce"})),
        ("/images/0/machines/0/pcrs/24", json!({"value": value, "rule": "enforce"})),
        ("/images/0/machines/0/pcrs/15", json!({"value": value, "rule": "enforce"})),
        ("/images/0/machines/0/pcrs/4/rule", json!("ignore")),
        ("/images/0/machines/0/pcrs/4/value", json!("00")),
        ("/images/0/machines/0/pcrs/4/extra", json!(1)),
        ("/images/0/machines/0/extra", json!(1)),
        ("/images/0/machines/0/machine", json!("Two Words")),
    ];
    for (pointer, value) in cases {
        let refusal = load_references(&with(&good, pointer, Some(value.clone()))).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ReferenceMalformed, "{pointer} = {value}");
    }
    let image = ["version", "source", "provenance", "machines", "machines/0/machine", "machines/0/pcrs"];
    let image = image.iter().map(|field| format!("/images/0/{field}"));
    for field in ["/name", "/serial", "/images", "/version"].map(str::to_owned).into_iter().chain(image) {
        assert_eq!(
            load_references(&with(&good, &field, None)).unwrap_err().code(),
            ReasonCode::ReferenceMalformed,
            "{field}"
        );
    }
    let reversed = with(&image_json(1), "/not_before", Some(json!(2)));
    let reversed = with(&reversed, "/not_after", Some(json!(1)));
    let twice = reference_json(&[image_json(1), image_json(1)]);
    for json in [reference_json(&[reversed]), twice] {
        assert_eq!(load_references(&json).unwrap_err().code(), ReasonCode::ReferenceMalformed);
    }
}

#[test]
fn reference_values_survive_a_round_trip() {
    let values = reference_values(&reference_json(&[image_json(1), image_json(2)]));
    assert_eq!(ReferenceValues::from_json(values.to_json().as_bytes()).unwrap(), values);
}

#[test]
fn manifests_that_do_not_fit_the_policy_are_refused_when_loaded() {
    let policy = policy(&sample());
    let manifest = |image: Value| AuthenticManifest::local(reference_values(&reference_json(&[image])));
    let lacks_11 = with(&image_json(1), "/machines/0/pcrs/11", None);
    let unquoted =
        with(&image_json(1), "/machines/0/pcrs/1", Some(json!({"value": support::value(1), "rule": "enforce"})));
    for image in [lacks_11, unquoted] {
        let refusal = References::new(&policy, vec![manifest(image)]).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ReferenceUnfit);
    }
    assert_eq!(References::new(&policy, vec![]).unwrap_err().code(), ReasonCode::ReferenceMissing);
    let good = manifest(image_json(1));
    let twice = References::new(&policy, vec![good.clone(), good.clone()]).unwrap_err();
    assert_eq!(twice.code(), ReasonCode::ReferenceMalformed);
    let stranger = reference_values(&with(&reference_json(&[image_json(1)]), "/name", Some(json!("stranger"))));
    let strange = References::new(&policy, vec![good, AuthenticManifest::local(stranger)]).unwrap_err();
    assert_eq!(strange.code(), ReasonCode::ReferenceMalformed);
}

#[test]
fn a_policy_can_forbid_that_a_control_plane_comes_back_while_nothing_is_heard_and_says_nothing_else() {
    assert!(load(&sample()).unwrap().may_rejoin_unheard(), "nothing else brings a cluster back that was off");
    let says = |word: Value| load(&with(&sample(), "/rejoin_unheard", Some(word)));
    assert!(says(json!("control-planes")).unwrap().may_rejoin_unheard());
    assert!(!says(json!("never")).unwrap().may_rejoin_unheard());
    assert!(!Policy::of_nobody().may_rejoin_unheard());
    for word in [json!("workers"), json!(null), json!(true), json!("")] {
        assert_eq!(says(word).unwrap_err().code(), ReasonCode::PolicyMalformed);
    }
}
