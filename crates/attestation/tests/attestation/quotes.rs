//! Attacks on quotes and attestation keys, by an attacker who has the AK's private key and signs whatever helps. The
//! honest TPM is a fake: a real one refuses to take part in most of these. `swtpm.rs` has the honest way with a TPM.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::{BINDING, NOW, booted, policy_for};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{Appraisal, LockExpectation, PcrSet, PcrValues, TpmEvidence, VerifiedEvidence};
use latchkey_tpm::wire::{
    Attest, Attributes, ENDORSEMENT_HIERARCHY, HashAlg, KeyScheme, PcrSelection, Public, Symmetric,
};
use proptest::prelude::*;
use ring::rand::SystemRandom;
use zeroize::Zeroizing;

/// Verifies `quote` signed by the TPM's AK with these PCR values.
fn verify_signed(tpm: &FakeTpm, quote: Vec<u8>, pcrs: PcrValues) -> Result<VerifiedEvidence, Refusal> {
    let signature = tpm.sign(&quote);
    verify_parts(tpm, quote, signature, pcrs)
}

fn verify_parts(tpm: &FakeTpm, quote: Vec<u8>, sig: Vec<u8>, pcrs: PcrValues) -> Result<VerifiedEvidence, Refusal> {
    let evidence = TpmEvidence::new(quote, sig, pcrs, Zeroizing::new(Vec::new()), None)?;
    support::trusted_ak(&policy_for(tpm), tpm)?.verify(&evidence, &BINDING)
}

fn selection(tpm: &FakeTpm) -> PcrSet {
    policy_for(tpm).selection()
}

fn honest(tpm: &FakeTpm) -> (Attest, PcrValues) {
    let set = selection(tpm);
    (tpm.attest(set.selection().unwrap(), &BINDING), tpm.pcr_values(set))
}

fn code(result: Result<VerifiedEvidence, Refusal>) -> ReasonCode {
    result.map(|_| "admitted").unwrap_err().code()
}

#[test]
fn honest_evidence_is_admitted() {
    let admission = support::admitted(&booted(1), LockExpectation::Unlocked).unwrap();
    assert_eq!(admission.image().version.to_string(), "1.1.0");
    assert_eq!((admission.reset_count(), admission.restart_count()), (2, 3));
    assert!(admission.warnings().is_empty());
}

#[test]
fn evidence_signed_by_unrestricted_key_is_refused() {
    let cases = [
        (Attributes::RESTRICTED, ReasonCode::AkNotRestricted),
        (Attributes::SIGN, ReasonCode::AkNotSigning),
        (Attributes::FIXED_TPM, ReasonCode::AkNotFixedTpm),
        (Attributes::FIXED_PARENT, ReasonCode::AkNotFixedParent),
        (Attributes::SENSITIVE_DATA_ORIGIN, ReasonCode::AkImported),
    ];
    for (missing, expected) in cases {
        let tpm = booted(1);
        let bits = tpm.ak_public().attributes.bits() & !missing.bits();
        let ak = Public { attributes: Attributes::from_bits(bits).unwrap(), ..tpm.ak_public().clone() };
        let tpm = tpm.with_ak_public(ak);
        assert_eq!(support::begin_code(&policy_for(&tpm), &tpm.identity()), Some(expected));
    }
}

#[test]
fn an_attestation_key_that_decrypts_is_refused() {
    let tpm = booted(1);
    let attributes = tpm.ak_public().attributes | Attributes::DECRYPT;
    let ak = Public { attributes, ..tpm.ak_public().clone() };
    let tpm = tpm.with_ak_public(ak);
    assert_eq!(support::begin_code(&policy_for(&tpm), &tpm.identity()), Some(ReasonCode::AkMayDecrypt));
}

/// `x509sign` (TPM 2.0 Library Part 2, section 8.3.3.11): the key signs certificates by `TPM2_CertifyX509`.
#[test]
fn an_attestation_key_that_signs_certificates_is_refused() {
    let tpm = booted(1);
    let attributes = tpm.ak_public().attributes | Attributes::X509_SIGN;
    let ak = Public { attributes, ..tpm.ak_public().clone() };
    let tpm = tpm.with_ak_public(ak);
    assert_eq!(support::begin_code(&policy_for(&tpm), &tpm.identity()), Some(ReasonCode::AkMaySignCertificates));
}

#[test]
fn an_attestation_key_free_to_choose_its_scheme_is_refused() {
    for scheme in [KeyScheme::Null, KeyScheme::Ecdsa(HashAlg::Sha384)] {
        let tpm = booted(1);
        let ak = Public { scheme, ..tpm.ak_public().clone() };
        let tpm = tpm.with_ak_public(ak);
        assert_eq!(support::begin_code(&policy_for(&tpm), &tpm.identity()), Some(ReasonCode::AkAlgorithmRefused));
    }
    let tpm = booted(1);
    let ak = Public { symmetric: Symmetric::Aes128Cfb, ..tpm.ak_public().clone() };
    let tpm = tpm.with_ak_public(ak);
    assert_eq!(support::begin_code(&policy_for(&tpm), &tpm.identity()), Some(ReasonCode::AkAlgorithmRefused));
}

/// Activation takes a key of any hierarchy. Only keys of the endorsement hierarchy are told the counters as they are.
#[test]
fn a_quote_by_a_key_of_another_hierarchy_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let below = tpm.ek_public().qualified_name(&ENDORSEMENT_HIERARCHY);
    let of = |parent: &[u8]| Attest { qualified_signer: tpm.ak_public().qualified_name(parent), ..attest.clone() };
    assert!(verify_signed(&tpm, of(&below).marshal(), pcrs.clone()).is_ok(), "a child of the endorsement key");
    let [owner, null, platform] = [0x4000_0001_u32, 0x4000_0007, 0x4000_000c].map(u32::to_be_bytes);
    let below_other = tpm.ek_public().qualified_name(&owner);
    for parent in [&owner[..], &null, &platform, &below_other, &[]] {
        let refused = verify_signed(&tpm, of(parent).marshal(), pcrs.clone());
        assert_eq!(code(refused), ReasonCode::QuoteHierarchyRefused, "{parent:x?}");
    }
    let unqualified = Attest { qualified_signer: tpm.ak_public().name(), ..attest };
    assert_eq!(code(verify_signed(&tpm, unqualified.marshal(), pcrs)), ReasonCode::QuoteHierarchyRefused);
}

#[test]
fn a_signature_over_something_no_tpm_made_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let mut forged = attest.marshal();
    forged[0] = 0;
    assert_eq!(code(verify_signed(&tpm, forged, pcrs)), ReasonCode::QuoteNotTpmGenerated);
}

#[test]
fn another_kind_of_attestation_is_refused() {
    // TPM_ST_ATTEST_CERTIFY, …_CREATION, …_TIME, …_NV, …_SESSION_AUDIT (part 2, table 20).
    for kind in [0x8017u16, 0x801a, 0x8019, 0x8014, 0x8016] {
        let tpm = booted(1);
        let (attest, pcrs) = honest(&tpm);
        let mut other = attest.marshal();
        other[4..6].copy_from_slice(&kind.to_be_bytes());
        assert_eq!(code(verify_signed(&tpm, other, pcrs)), ReasonCode::QuoteWrongType);
    }
}

#[test]
fn a_quote_for_another_session_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let mut other = BINDING;
    other[31] ^= 1;
    for extra_data in [other.to_vec(), Vec::new(), BINDING[..31].to_vec(), [&BINDING[..], &[0]].concat()] {
        let quote = Attest { extra_data, ..attest.clone() };
        assert_eq!(code(verify_signed(&tpm, quote.marshal(), pcrs.clone())), ReasonCode::QuoteBindingMismatch);
    }
}

#[test]
fn fewer_or_more_pcrs_than_the_policy_are_refused() {
    let tpm = booted(1);
    let set = selection(&tpm);
    let without_11 = set.without(PcrSet::of(&[11]).unwrap());
    let without_lock = set.without(PcrSet::of(&[15]).unwrap());
    for other in [without_11, without_lock, set.with(1).unwrap(), PcrSet::all()] {
        let quote = tpm.attest(other.selection().unwrap(), &BINDING);
        let refused = verify_signed(&tpm, quote.marshal(), tpm.pcr_values(other));
        assert_eq!(code(refused), ReasonCode::QuoteSelectionMismatch);
    }
}

/// Replaces the selection in a marshalled quote by `selection` (`TPML_PCR_SELECTION`).
fn with_selection(attest: &Attest, selection: &[u8]) -> Vec<u8> {
    let bytes = attest.marshal();
    let tail = 2 + attest.pcr_digest.len();
    let head = bytes.len() - tail - attest.selection.marshal().len();
    [&bytes[..head], selection, &bytes[bytes.len() - tail..]].concat()
}

#[test]
fn sha1_bank_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let mut sha1 = attest.selection.marshal();
    sha1[4..6].copy_from_slice(&[0x00, 0x04]);
    assert_eq!(code(verify_signed(&tpm, with_selection(&attest, &sha1), pcrs)), ReasonCode::QuoteBankRefused);
}

#[test]
fn two_banks_or_the_same_bank_twice_are_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let one = attest.selection.marshal();
    let mut sha384 = one[4..].to_vec();
    sha384[..2].copy_from_slice(&[0x00, 0x0c]);
    for second in [one[4..].to_vec(), sha384] {
        let both = [&2u32.to_be_bytes()[..], &one[4..], &second].concat();
        assert_eq!(
            code(verify_signed(&tpm, with_selection(&attest, &both), pcrs.clone())),
            ReasonCode::QuoteBankRefused
        );
    }
    let none = 0u32.to_be_bytes();
    assert_eq!(code(verify_signed(&tpm, with_selection(&attest, &none), pcrs)), ReasonCode::QuoteBankRefused);
}

#[test]
fn a_selection_in_a_second_encoding_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let mut longer = attest.selection.marshal();
    longer[6] = 4;
    longer.push(0);
    assert_eq!(code(verify_signed(&tpm, with_selection(&attest, &longer), pcrs)), ReasonCode::QuoteBankRefused);
}

#[test]
fn pcr_values_that_do_not_hash_to_the_quote_are_refused() {
    let tpm = booted(2);
    let (attest, pcrs) = honest(&tpm);
    // The impostor sends the values of the image it should have booted.
    let mut wanted = pcrs.as_map().clone();
    for index in support::ENFORCED {
        wanted.insert(index, [1; 32]);
    }
    let refused = verify_signed(&tpm, attest.marshal(), PcrValues::new(wanted).unwrap());
    assert_eq!(code(refused), ReasonCode::PcrDigestMismatch);
}

#[test]
fn missing_or_unquoted_pcr_values_are_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let mut fewer = pcrs.as_map().clone();
    fewer.remove(&4);
    let mut more = pcrs.as_map().clone();
    more.insert(1, [0; 32]);
    for values in [fewer, more, std::collections::BTreeMap::new()] {
        let values = PcrValues::new(values).unwrap();
        assert_eq!(code(verify_signed(&tpm, attest.marshal(), values)), ReasonCode::PcrValuesMismatch);
    }
}

#[test]
fn values_shifted_between_pcrs_are_refused() {
    let mut tpm = booted(1);
    tpm.set_pcr(4, [4; 32]);
    tpm.set_pcr(7, [7; 32]);
    let (attest, pcrs) = honest(&tpm);
    let mut swapped = pcrs.as_map().clone();
    swapped.insert(4, [7; 32]);
    swapped.insert(7, [4; 32]);
    let refused = verify_signed(&tpm, attest.marshal(), PcrValues::new(swapped).unwrap());
    assert_eq!(code(refused), ReasonCode::PcrDigestMismatch);
}

#[test]
fn a_quote_by_another_tpm_is_refused() {
    let (tpm, other) = (booted(2), booted(1));
    let (attest, pcrs) = honest(&other);
    let quote = attest.marshal();
    let signature = other.sign(&quote);
    assert_eq!(code(verify_parts(&tpm, quote, signature, pcrs)), ReasonCode::SignatureInvalid);
}

#[test]
fn a_signature_of_another_scheme_than_the_keys_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let quote = attest.marshal();
    let mut sha384 = tpm.sign(&quote);
    sha384[2..4].copy_from_slice(&[0x00, 0x0c]);
    assert_eq!(code(verify_parts(&tpm, quote.clone(), sha384, pcrs.clone())), ReasonCode::SignatureAlgorithm);
    let rsa = [&[0x00, 0x14, 0x00, 0x0b, 0x01, 0x00][..], &[1; 256]].concat();
    assert_eq!(code(verify_parts(&tpm, quote.clone(), rsa, pcrs.clone())), ReasonCode::SignatureAlgorithm);
    assert_eq!(code(verify_parts(&tpm, quote, vec![0; 4], pcrs)), ReasonCode::SignatureMalformed);
}

#[test]
fn a_zero_signature_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let zeros = [&[0x00, 0x18, 0x00, 0x0b][..], &[0, 32], &[0; 32], &[0, 32], &[0; 32]].concat();
    assert_eq!(code(verify_parts(&tpm, attest.marshal(), zeros, pcrs)), ReasonCode::SignatureInvalid);
}

#[test]
fn truncated_and_overlong_quotes_are_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let quote = attest.marshal();
    for length in 0..quote.len() {
        let refused = code(verify_signed(&tpm, quote[..length].to_vec(), pcrs.clone()));
        assert_eq!(refused, ReasonCode::QuoteMalformed, "cut to {length} bytes");
    }
    let longer = [&quote[..], &[0]].concat();
    assert_eq!(code(verify_signed(&tpm, longer, pcrs)), ReasonCode::QuoteMalformed);
}

/// The credential that the verifier makes opens with this endorsement key in the name of this attestation key only, and whoever
/// cannot open it is refused, whatever he answers in its place.
#[test]
fn activation_with_another_tpms_key_is_refused() {
    let (tpm, other) = (booted(1), booted(1));
    let policy = policy_for(&tpm);
    let begin = || Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
    let (challenge, pending) = begin();
    let opened = tpm.activate(challenge.credential()).expect("its own");
    assert!(pending.confirm(&opened).is_ok());
    // An answer of the right form, from another challenge: the best that those have who cannot open this one.
    let old = tpm.activate(begin().0.credential()).expect("its own");
    let (challenge, pending) = begin();
    assert!(other.activate(challenge.credential()).is_none(), "another EK opens the credential");
    assert_eq!(pending.confirm(&old).unwrap_err().code(), ReasonCode::ActivationFailed);
    // The EK's TPM is asked to open a credential for an AK that is not in it.
    let (challenge, pending) = begin();
    let thief = tpm.with_ak_public(other.ak_public().clone());
    assert!(thief.activate(challenge.credential()).is_none(), "the credential does not depend on the AK");
    assert_eq!(pending.confirm(&old).unwrap_err().code(), ReasonCode::ActivationFailed);
}

#[test]
fn a_wrong_answer_drops_the_pending_record() {
    let tpm = booted(1);
    let policy = policy_for(&tpm);
    for wrong in [vec![], vec![0; 32], vec![0; 31], vec![0; 64]] {
        let (_, pending) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
        // `confirm` takes `pending`: a second try does not compile.
        assert_eq!(pending.confirm(&wrong).unwrap_err().code(), ReasonCode::ActivationFailed);
    }
}

#[test]
fn the_answer_to_another_challenge_is_refused() {
    let tpm = booted(1);
    let policy = policy_for(&tpm);
    let (first, _) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
    let (_, second) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
    let replayed = tpm.activate(first.credential()).unwrap();
    assert_eq!(second.confirm(&replayed).unwrap_err().code(), ReasonCode::ActivationFailed);
}

#[test]
fn flipping_any_bit_of_the_quote_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let quote = attest.marshal();
    let signature = tpm.sign(&quote);
    assert!(verify_parts(&tpm, quote.clone(), signature.clone(), pcrs.clone()).is_ok());
    for bit in 0..quote.len() * 8 {
        let mut flipped = quote.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(verify_parts(&tpm, flipped, signature.clone(), pcrs.clone()).is_err(), "bit {bit}");
    }
}

#[test]
fn flipping_any_bit_of_the_signature_is_refused() {
    let tpm = booted(1);
    let (attest, pcrs) = honest(&tpm);
    let quote = attest.marshal();
    let signature = tpm.sign(&quote);
    for bit in 0..signature.len() * 8 {
        let mut flipped = signature.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(verify_parts(&tpm, quote.clone(), flipped, pcrs.clone()).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(quote in proptest::collection::vec(any::<u8>(), 0..300),
                                   signature in proptest::collection::vec(any::<u8>(), 0..300)) {
        let tpm = booted(1);
        let (_, pcrs) = honest(&tpm);
        prop_assert!(verify_parts(&tpm, quote, signature, pcrs).is_err());
    }

    #[test]
    fn only_the_selected_pcrs_verify(bits in 1u32..1 << 24) {
        let tpm = booted(1);
        let chosen = PcrSelection::from_bits(bits).unwrap();
        let quote = tpm.attest(chosen, &BINDING).marshal();
        let result = verify_signed(&tpm, quote, tpm.pcr_values(PcrSet::from(chosen)));
        prop_assert_eq!(result.is_ok(), PcrSet::from(chosen) == selection(&tpm));
    }
}
