//! The attester as a whole.

use crate::swtpm::support::{QUOTE, assert_empty, attester, code, event, implemented, through, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, ResponseReason, TpmCode, TpmError, Transport};
use latchkey_tpm::wire::{
    Attest, Credential, EkTemplate, HashAlg, PcrSelection, Public, Signature, extended, pcr_digest,
};
use tpm2_protocol::TpmUnmarshal;
use tpm2_protocol::data::{TpmsAttest, TpmtPublic, TpmtSignature};

/// A second implementation reads `bytes` to their end.
fn read_by_others<T: TpmUnmarshal>(bytes: &[u8]) {
    let (_, rest) = T::unmarshal(bytes).expect("a second implementation reads it");
    assert_eq!(rest, b"");
}

fn assert_quote(attester: &mut AttestingTpm, selection: PcrSelection) {
    let qualifying = [0x5a; 32];
    let quote = attester.quote(&selection, &qualifying).expect("quote");
    let attest = Attest::parse(&quote.attest).expect("attestation");
    let signature = Signature::parse(&quote.signature).expect("signature");
    attester.ak_public().verify(&quote.attest, &signature).expect("verifies");
    assert_eq!((attest.extra_data.as_slice(), attest.selection), (qualifying.as_slice(), selection));
    assert_eq!(attest.pcr_digest, pcr_digest(signature.hash(), selection, &quote.pcrs).expect("digest"));
    read_by_others::<TpmsAttest>(&quote.attest);
    read_by_others::<TpmtSignature>(&quote.signature);
}

#[test]
fn every_endorsement_key_carries_an_attester() {
    let Some(swtpm) = Swtpm::start() else { return };
    for template in implemented(&swtpm) {
        let mut attester = attester(witnessed(&swtpm), template);
        assert_eq!(attester.ek_public().endorsement_template(), Some(template));
        let certified = matches!(template, EkTemplate::RsaL1 | EkTemplate::P384H3);
        assert_eq!(attester.ek_certificate().is_some(), certified, "{template:?}");
        assert!(attester.ak_public().is_restricted_signing_key());
        for public in [attester.ek_public(), attester.ak_public()] {
            assert_eq!(Public::parse(&public.marshal()).as_ref(), Ok(public));
            read_by_others::<TpmtPublic>(&public.marshal());
        }
        for selection in [PcrSelection::new([15]), PcrSelection::new(0..24), PcrSelection::new([4, 9, 11, 15])] {
            assert_quote(&mut attester, selection.expect("selection"));
        }
        drop(attester);
        assert_empty(&swtpm);
    }
}

#[test]
fn a_key_that_the_tpm_cannot_make_is_named_as_such() {
    let Some(swtpm) = Swtpm::start() else { return };
    for missing in EkTemplate::ALL.into_iter().filter(|template| !implemented(&swtpm).contains(template)) {
        let refused = AttestingTpm::new(witnessed(&swtpm), missing).expect_err("no such key");
        assert_eq!(refused.code(), TpmCode::NotCapable, "{refused}");
    }
    assert_empty(&swtpm);
}

#[test]
fn all_endorsement_keys_of_a_tpm_are_listed() {
    let Some(swtpm) = Swtpm::start() else { return };
    let listed = witnessed(&swtpm).endorsement_keys().expect("listed");
    assert_eq!(listed.iter().map(|ek| ek.template).collect::<Vec<_>>(), implemented(&swtpm));
    for ek in listed {
        let attester = attester(witnessed(&swtpm), ek.template);
        assert_eq!((attester.ek_public(), attester.ek_certificate()), (&ek.public, ek.certificate.as_deref()));
    }
    assert_empty(&swtpm);
}

#[test]
fn keys_are_the_same_after_a_reset_and_registers_are_not() {
    let Some(mut swtpm) = Swtpm::start() else { return };
    let mut before = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect("attester");
    before.extend_event(15, b"cluster").expect("extended");
    assert_eq!(before.read_pcr(15).expect("read"), extended(&[0; 32], b"cluster"));
    let (ek, ak) = (before.ek_public().clone(), before.ak_public().clone());
    drop(before);
    swtpm.restart().expect("restarts");
    let mut after = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect("attester");
    assert_eq!((after.ek_public(), after.ak_public()), (&ek, &ak));
    assert_eq!(after.read_pcr(15).expect("read"), [0; 32]);
}

#[test]
fn two_tpms_share_no_key() {
    let (Some(one), Some(other)) = (Swtpm::start(), Swtpm::start_distinct("other")) else { return };
    let one = AttestingTpm::new(witnessed(&one), EkTemplate::P384H3).expect("attester");
    let other = AttestingTpm::new(witnessed(&other), EkTemplate::P384H3).expect("attester");
    assert_ne!(one.ek_public(), other.ek_public());
    assert_ne!(one.ak_public(), other.ak_public());
    assert_ne!(one.ek_certificate(), other.ek_certificate());
}

#[test]
fn a_forged_credential_is_refused_and_leaves_nothing_behind() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(witnessed(&swtpm), EkTemplate::P384H3);
    let forged = Credential {
        integrity: vec![1; 48],
        identity: vec![2; 34],
        // The key's own point: on the curve, but nobody knows the shared secret's integrity key.
        secret: match &attester.ek_public().key {
            latchkey_tpm::wire::PublicKey::Ecc { point, .. } => point.marshal(),
            latchkey_tpm::wire::PublicKey::Rsa { .. } => unreachable!("the template is ECC"),
        },
    };
    // More often than the TPM has slots for sessions.
    for _ in 0..8 {
        let refused = attester.activate(&forged.marshal()).expect_err("forged");
        assert_eq!(refused.code(), TpmCode::CredentialNotOurs, "{refused}");
    }
    let refused = attester.activate(&forged.marshal()).expect_err("forged");
    assert!(
        matches!(&refused, TpmError::Refused { code, .. } if code.reason() == ResponseReason::Integrity),
        "{refused}"
    );
    assert!(matches!(attester.activate(b"\x00\x02\x00\x00"), Err(TpmError::Argument(_))));
    // The session survives a refusal.
    assert_eq!(attester.read_pcr(15).expect("read"), [0; 32]);
    drop(attester);
    assert_empty(&swtpm);
}

#[test]
fn values_and_quote_agree_when_an_extension_comes_between() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tpm = through(&swtpm, |tpm, command, response| {
        if code(command) == QUOTE {
            tpm.transmit(&event(16), response)?;
        }
        tpm.transmit(command, response)
    });
    let mut attester = attester(tpm, EkTemplate::P384H3);
    let before = attester.read_pcr(16).expect("read");
    assert_quote(&mut attester, PcrSelection::new([15, 16]).expect("selection"));
    assert_ne!(attester.read_pcr(16).expect("read"), before, "the extension happened");
}

#[test]
fn registers_that_never_hold_still_are_an_error() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tpm = through(&swtpm, |tpm, command, response| {
        if code(command) == QUOTE {
            tpm.transmit(&event(16), response)?;
            tpm.transmit(command, response)?;
            return tpm.transmit(&event(16), &mut Vec::new());
        }
        tpm.transmit(command, response)
    });
    let mut attester = attester(tpm, EkTemplate::P384H3);
    let quote = attester.quote(&PcrSelection::new([16]).expect("selection"), &[0; 32]);
    assert!(matches!(quote, Err(TpmError::PcrRaced)));
}

#[test]
fn an_event_that_is_not_the_only_one_is_an_error() {
    let Some(swtpm) = Swtpm::start() else { return };
    let tpm = through(&swtpm, |tpm, command, response| {
        if code(command) == crate::swtpm::support::PCR_EVENT {
            tpm.transmit(&event(16), response)?;
        }
        tpm.transmit(command, response)
    });
    let mut attester = attester(tpm, EkTemplate::P384H3);
    assert!(matches!(attester.extend_event(16, b"lock"), Err(TpmError::PcrRaced)));
}

#[test]
fn hash_algorithms_have_their_sizes() {
    for hash in [HashAlg::Sha256, HashAlg::Sha384, HashAlg::Sha512] {
        assert_eq!(hash.digest(&[b"x"]).len(), hash.size());
        assert_eq!(HashAlg::from_id(hash.id()), Ok(hash));
    }
}
