//! Attacks on quotes and what belongs to them.

use latchkey_tpm::wire::{
    Attest, ClockInfo, HashAlg, PcrSelection, PcrValues, Signature, WireError, extended, pcr_digest,
};

fn quote() -> Attest {
    Attest {
        qualified_signer: vec![1; 34],
        extra_data: vec![2; 32],
        clock: ClockInfo { clock: 3, reset_count: 4, restart_count: 5, safe: true },
        firmware_version: 6,
        selection: PcrSelection::new([4, 9, 15]).expect("selection"),
        pcr_digest: vec![7; 32],
    }
}

/// `quote()` with `bytes` written at `offset`.
fn with(offset: usize, bytes: &[u8]) -> Result<Attest, WireError> {
    let mut marshalled = quote().marshal();
    marshalled[offset..offset + bytes.len()].copy_from_slice(bytes);
    Attest::parse(&marshalled)
}

/// Offset of the PCR selection: magic, type, signer, extra data, clock, firmware version.
const SELECTION: usize = 4 + 2 + (2 + 34) + (2 + 32) + 17 + 8;

#[test]
fn bytes_signed_by_an_unrestricted_key_are_no_quote() {
    assert_eq!(with(0, b"\xffTCH"), Err(WireError::NotGenerated(0xff54_4348)));
}

#[test]
fn another_attestation_of_the_same_key_is_no_quote() {
    // TPM_ST_ATTEST_CERTIFY
    assert_eq!(with(4, &[0x80, 0x17]), Err(WireError::NotAQuote(0x8017)));
}

#[test]
fn a_sha1_bank_is_refused() {
    assert_eq!(with(SELECTION + 4, &[0x00, 0x04]), Err(WireError::Selection("bank is not SHA-256")));
}

#[test]
fn two_banks_or_none_are_refused() {
    for count in [0, 2] {
        assert_eq!(with(SELECTION, &[0, 0, 0, count]), Err(WireError::Selection("not exactly one bank")));
    }
}

#[test]
fn a_second_encoding_of_the_same_selection_is_refused() {
    assert!(matches!(with(SELECTION + 6, &[2]), Err(WireError::Selection(_))));
    assert!(matches!(with(SELECTION + 6, &[4]), Err(WireError::Selection(_))));
    assert_eq!(with(SELECTION + 7, &[0, 0, 0]), Err(WireError::Selection("empty")));
}

#[test]
fn a_boolean_has_two_values() {
    assert!(with(4 + 2 + 36 + 34 + 16, &[2]).is_err());
}

#[test]
fn bytes_after_a_quote_are_refused() {
    let mut bytes = quote().marshal();
    bytes.push(0);
    assert_eq!(Attest::parse(&bytes), Err(WireError::Trailing(1)));
}

#[test]
fn selections_name_each_register_once() {
    assert!(PcrSelection::new([15, 15]).is_err());
    assert!(PcrSelection::new([24]).is_err());
    assert!(PcrSelection::new([]).is_err());
    assert!(PcrSelection::from_bits(1 << 24).is_err());
    let selection = PcrSelection::new([15, 0, 9]).expect("selection");
    assert_eq!(selection.iter().collect::<Vec<_>>(), [0, 9, 15]);
    assert_eq!(selection.marshal(), [0, 0, 0, 1, 0, 0x0b, 3, 0x01, 0x82, 0x00]);
}

#[test]
fn a_value_too_few_or_too_many_gives_no_digest() {
    let selection = PcrSelection::new([4, 9]).expect("selection");
    let mut values = PcrValues::from([(4, [4; 32])]);
    assert!(matches!(pcr_digest(HashAlg::Sha256, selection, &values), Err(WireError::PcrMismatch { .. })));
    values.insert(9, [9; 32]);
    let expected = HashAlg::Sha256.digest(&[&[4; 32], &[9; 32]]);
    assert_eq!(pcr_digest(HashAlg::Sha256, selection, &values), Ok(expected));
    values.insert(200, [0; 32]);
    assert!(matches!(pcr_digest(HashAlg::Sha256, selection, &values), Err(WireError::PcrMismatch { .. })));
}

#[test]
fn signatures_pad_their_scalars() {
    let signature = Signature::Ecdsa { hash: HashAlg::Sha256, r: vec![1; 31], s: vec![2] };
    let fixed = signature.fixed().expect("ECDSA");
    assert_eq!((fixed[0], fixed[1], fixed[62], fixed[63]), (0, 1, 0, 2));
    assert!(Signature::RsaSsa { hash: HashAlg::Sha256, signature: vec![0; 256] }.fixed().is_none());
}

#[test]
fn an_event_extends_its_hash() {
    let event = HashAlg::Sha256.digest(&[b"event"]);
    assert_eq!(extended(&[0; 32], b"event").to_vec(), HashAlg::Sha256.digest(&[&[0; 32], &event]));
}
