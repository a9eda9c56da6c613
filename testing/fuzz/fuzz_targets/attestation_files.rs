//! What an operator's files and a peer's evidence may hold: policies, reference values, recordings, evidence, reports of
//! SEV-SNP guests. What is read and written again must be the same.
#![no_main]

use latchkey_attestation::parse::{CertificateTable, SnpReport};
use latchkey_attestation::{Policy, RecordedEvidence, ReferenceValues, References, TpmEvidence};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let policy = Policy::from_json(json);
    if let Ok(policy) = &policy {
        assert!(policy.selection().contains(Policy::LOCK_PCR));
        assert!(References::new(policy, Vec::new()).is_err(), "no policy goes without reference values");
    }
    if let Ok(values) = ReferenceValues::from_json(json) {
        assert_eq!(ReferenceValues::from_json(values.to_json().as_bytes()).expect("what was written"), values);
    }
    if let Ok(recording) = RecordedEvidence::from_json(json) {
        let again = RecordedEvidence::from_json(recording.to_json().as_bytes()).expect("what was written");
        assert_eq!(again.to_json(), recording.to_json());
    }
    drop(TpmEvidence::from_json(json));
    if let Ok(host) = CertificateTable::parse(json) {
        assert!([host.vcek, host.vlek].into_iter().flatten().all(|der| !der.is_empty() && der.len() < json.len()));
    }
    if let Ok(report) = SnpReport::parse(json) {
        assert_eq!(report.measurement().0[..], json[0x90..0xc0]);
    }
});
