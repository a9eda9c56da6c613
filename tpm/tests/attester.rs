//! The attester against swtpm.

use latchkey_tpm::device::rig::Swtpm;
use latchkey_tpm::device::{Attester, EkPreference};
use latchkey_tpm::wire::{Attest, EkTemplate, PcrSelection, Signature, pcr_digest};

fn attester(swtpm: &Swtpm, preference: EkPreference) -> Attester {
    Attester::new(swtpm.connect().expect("connects"), preference).expect("attester")
}

#[test]
fn the_certified_p384_key_is_preferred_and_the_quote_verifies() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(&swtpm, EkPreference::Certified);
    assert_eq!(attester.ek_public().endorsement_template(), Some(EkTemplate::P384H3));
    assert!(attester.ek_certificate().is_some());
    assert!(attester.ak_public().is_restricted_signing_key());

    let selection = PcrSelection::new(0..24).expect("selection");
    let qualifying = [7; 32];
    let quote = attester.quote(&selection, &qualifying).expect("quote");
    let attest = Attest::parse(&quote.attest).expect("attest");
    let signature = Signature::parse(&quote.signature).expect("signature");
    attester.ak_public().verify(&quote.attest, &signature).expect("verifies");
    assert_eq!(attest.extra_data, qualifying);
    assert_eq!(attest.pcr_digest, pcr_digest(signature.hash(), selection, &quote.pcrs).expect("digest"));
}
