//! Manifests from logs, and logs from evidence.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Agile, IPL, fixture, quoted};
use latchkey_attestation::parse::PcrSet;
use latchkey_attestation::reference::{ManifestName, PlatformProfile, Rule};
use latchkey_attestation::{Component, Difference, RecordedEvidence, ReferenceValues};
use latchkey_measurements::diagnose::{DiagnosisError, most_specific_event};
use latchkey_measurements::manifest::{Description, ManifestError, differing, from_log};
use latchkey_measurements::source::{Source, SourceError};
use latchkey_measurements::{Bank, EventLog};

fn about() -> Description<'static> {
    let manifest = ManifestName::new("demo").unwrap();
    let version = "1.0.0".parse().unwrap();
    Description { manifest, serial: 1, image: "latchkey-demo", version, by: "a test", at: Some(1_795_000_000) }
}

#[test]
fn a_manifest_from_a_log_admits_that_boot_and_names_what_differs_in_another() {
    let bytes = fixture("honest.bin");
    let log = EventLog::parse(&bytes).unwrap();
    let enforce = PcrSet::of(&[4, 9, 11, 12, 15]).unwrap();
    let manifest = from_log(&bytes, &log, enforce, PcrSet::of(&[0, 4]).unwrap(), "swtpm", &about()).unwrap();
    assert_eq!(ReferenceValues::from_json(manifest.to_json().as_bytes()).unwrap(), manifest);
    let machine = manifest.images()[0].machine("swtpm").unwrap();
    assert_eq!(
        machine.pcrs().keys().copied().collect::<Vec<_>>(),
        [0, 4, 9, 11, 12],
        "the lock has no reference value"
    );
    assert_eq!((machine.pcrs()[&4].rule, machine.pcrs()[&0].rule), (Rule::Enforce, Rule::Warn));
    for (pcr, reference) in machine.pcrs() {
        assert_eq!(quoted("honest").value(*pcr), Some(reference.value), "PCR {pcr}");
    }
    assert_eq!(manifest.images()[0].sources()[0].name, "event log");

    assert_eq!(differing(machine, &log).unwrap(), PcrSet::EMPTY);
    let impostor = fixture("impostor.bin");
    assert_eq!(differing(machine, &EventLog::parse(&impostor).unwrap()).unwrap(), PcrSet::of(&[4, 9, 11]).unwrap());
}

/// What a refused machine's own log tells, once it replays to what the TPM signed.
#[test]
fn the_event_that_tells_is_named_from_a_log_that_replays_and_from_no_other() {
    let honest = fixture("honest.bin");
    let log = EventLog::parse(&honest).unwrap();
    let enforce = PcrSet::of(&[4, 9, 11, 12]).unwrap();
    let manifest = from_log(&honest, &log, enforce, PcrSet::of(&[0]).unwrap(), "swtpm", &about()).unwrap();
    let machine = manifest.images()[0].machine("swtpm").unwrap();
    assert_eq!(machine.explained(), enforce.with(0).unwrap());
    let refused = |pcr: u8, differing: &[u8]| Difference {
        pcr,
        component: Component::of(pcr),
        means: None,
        expected: String::new(),
        got: String::new(),
        image: None,
        differing: differing.to_vec(),
    };
    let told = |name: &str, refused: &Difference| {
        most_specific_event(machine, &fixture(&format!("{name}.bin")), &quoted(name), refused)
            .map(|event| event.to_string())
    };

    let impostor = refused(11, &[4, 9, 11]);
    let event = told("impostor", &impostor).unwrap();
    assert!(event.starts_with("PCR 11 (sections of the unified kernel image): event "), "{event}");
    assert!(event.contains("section .cmdline"), "{event}");
    let event = told("override", &refused(12, &[9, 12])).unwrap();
    assert!(event.starts_with("PCR 12 (command-line override or credentials): event "), "{event}");
    // What differs and is only warned about is no reason.
    let event = told("override", &refused(9, &[9])).unwrap();
    assert!(event.starts_with("PCR 9 (kernel command line or initrd): event "), "{event}");

    assert_eq!(told("honest", &impostor).unwrap_err(), DiagnosisError::NoEvents(11), "nothing differs");
    assert_eq!(told("impostor", &refused(7, &[7])).unwrap_err(), DiagnosisError::NoEvents(7), "nothing is told of it");
    let lie = most_specific_event(machine, &honest, &quoted("impostor"), &impostor);
    assert!(matches!(lie, Err(DiagnosisError::ReplayError(_))), "{lie:?}");
    assert!(matches!(
        most_specific_event(machine, b"nonsense", &quoted("honest"), &impostor),
        Err(DiagnosisError::Log(_))
    ));
    let silent = PlatformProfile::new("swtpm", machine.pcrs().clone());
    assert!(matches!(
        most_specific_event(&silent, &honest, &quoted("honest"), &impostor),
        Err(DiagnosisError::NoEvents(11))
    ));
}

#[test]
fn a_log_without_sha256_or_nothing_to_enforce_makes_no_manifest() {
    let bytes = Agile::new(&[Bank::Sha1]).event(4, IPL, b"x").bytes;
    let log = EventLog::parse(&bytes).unwrap();
    let enforce = PcrSet::of(&[4]).unwrap();
    assert_eq!(from_log(&bytes, &log, enforce, PcrSet::EMPTY, "swtpm", &about()), Err(ManifestError::NoSha256));
    let bytes = fixture("honest.bin");
    let log = EventLog::parse(&bytes).unwrap();
    let nothing = from_log(&bytes, &log, PcrSet::EMPTY, enforce, "swtpm", &about());
    assert!(matches!(nothing, Err(ManifestError::Invalid(_))), "{nothing:?}");
}

/// A recording of a TPM's evidence, with a log put in.
fn recording(log: Option<&[u8]>) -> Vec<u8> {
    use base64::Engine;
    let file =
        format!("{}/../crates/attestation/tests/fixtures/ek-p256-pinned/evidence.json", env!("CARGO_MANIFEST_DIR"));
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    if let Some(log) = log {
        json["event_log"] = base64::engine::general_purpose::STANDARD.encode(log).into();
    }
    let json = json.to_string().into_bytes();
    RecordedEvidence::from_json(&json).unwrap();
    json
}

#[test]
fn a_log_is_found_in_recorded_evidence_and_in_a_file_of_its_own() {
    let bytes = fixture("honest.bin");
    let evidence = Source::read(recording(Some(&bytes))).unwrap();
    assert_eq!(evidence.bytes(), bytes);
    assert_eq!(evidence.log().unwrap().events().len(), 34);
    assert!(evidence.quoted().unwrap().value(4).is_some());
    let file = Source::read(bytes.clone()).unwrap();
    assert_eq!((file.bytes(), file.quoted()), (bytes.as_slice(), None));
    assert_eq!(Source::read(recording(None)).unwrap_err(), SourceError::NoLog);
    assert!(matches!(Source::read(b" {}".to_vec()), Err(SourceError::Evidence(_))));
    assert!(matches!(Source::read(b"nonsense".to_vec()).unwrap().log(), Err(SourceError::Log(_))));
}
