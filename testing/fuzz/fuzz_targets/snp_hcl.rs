//! What Azure's paravisor left in its TPM, as an agent reads it off the bus. What is read are the bytes that stand there, and they go over
//! the wire and back.
#![no_main]

use latchkey_attestation::parse::{AzureHclEvidence, HclReport, ProcessorEvidence, SnpReport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(HclReport { report, claims }) = HclReport::parse(input) else { return };
    assert_eq!(report, &input[32..32 + SnpReport::SIZE]);
    assert!(input.as_ptr_range().contains(&report.as_ptr()) && claims.len() <= HclReport::MAX_CLAIMS);
    assert!(claims.len() <= input.len() - 1236);
    let evidence = ProcessorEvidence::from(AzureHclEvidence::from_nv(input).expect("what was read is short enough"));
    let wire = serde_json::to_vec(&evidence).expect("JSON");
    assert_eq!(serde_json::from_slice::<ProcessorEvidence>(&wire).expect("the same"), evidence);
});
