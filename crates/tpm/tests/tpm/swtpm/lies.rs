//! Answers that no session protects yet, made up by somebody on the bus: each must contradict itself.

use crate::swtpm::support::{EK_P384, PCR_READ, assert_empty, code, session, through, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{Hierarchy, Tpm, TpmError, Transport};
use latchkey_tpm::wire::{Attributes, EkTemplate, PcrSelection, attestation_key};

const CREATE_PRIMARY: u32 = 0x131;
const READ_PUBLIC: u32 = 0x173;
const NV_READ_PUBLIC: u32 = 0x169;

/// The TPM behind somebody who changes every successful answer to `target` with `lie`, its size set right afterwards.
fn lying(swtpm: &Swtpm, target: u32, lie: fn(&mut Vec<u8>)) -> Tpm {
    through(swtpm, move |tpm, command, response| {
        tpm.transmit(command, response)?;
        if code(command) == target && response[6..10] == [0; 4] {
            lie(response);
            let size = u32::try_from(response.len()).expect("short").to_be_bytes();
            response[2..6].copy_from_slice(&size);
        }
        Ok(())
    })
}

fn create(tpm: &mut Tpm) -> Result<(), TpmError> {
    tpm.create_primary(Hierarchy::Endorsement, &attestation_key(), None).map(drop)
}

#[test]
fn a_made_key_whose_name_is_not_its_own_is_refused_and_flushed() {
    let Some(swtpm) = Swtpm::start() else { return };
    // Header, handle, parameter size, length of the public area; then 26 bytes before the point's x.
    let mut tpm = lying(&swtpm, CREATE_PRIMARY, |answer| answer[10 + 4 + 4 + 2 + 26] ^= 1);
    let refused = create(&mut tpm).expect_err("another point");
    assert!(matches!(refused, TpmError::Unexpected { command: "TPM2_CreatePrimary", .. }), "{refused}");
    // The TPM is still there: whatever was made is gone already.
    assert_eq!(tpm.handles(0x8000_0000).expect("handles"), []);
}

#[test]
fn a_key_of_another_template_is_refused_and_flushed() {
    let Some(swtpm) = Swtpm::start() else { return };
    // The template is changed on its way: without the restriction, such a key signs anything.
    let wanted = attestation_key();
    let bits = wanted.attributes.bits() & !Attributes::RESTRICTED.bits();
    let mut tpm = through(&swtpm, move |tpm, command, response| {
        let mut changed = command.to_vec();
        let from = wanted.attributes.bits().to_be_bytes();
        if let Some(at) = changed.windows(4).position(|window| window == from) {
            changed[at..at + 4].copy_from_slice(&bits.to_be_bytes());
        }
        tpm.transmit(&changed, response)
    });
    let refused = create(&mut tpm).expect_err("not restricted");
    assert!(matches!(refused, TpmError::Unexpected { command: "TPM2_CreatePrimary", .. }), "{refused}");
    assert_eq!(tpm.handles(0x8000_0000).expect("handles"), []);
}

#[test]
fn a_password_is_not_answered_with_an_hmac() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = lying(&swtpm, CREATE_PRIMARY, |answer| {
        answer.truncate(answer.len() - 2);
        answer.extend([0, 1, 0xaa]);
    });
    assert!(matches!(create(&mut tpm), Err(TpmError::Tampered { .. })));
    drop(tpm);
    // The handle of what was made is lost with the answer; only a reset is sure to remove it.
    assert!(swtpm.connect().expect("connects").handles(0x8000_0000).expect("handles").len() <= 1);
}

#[test]
fn a_public_area_under_the_name_of_another_is_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    // The last byte of the P-384 key's y, before two names of 50 bytes each with their lengths.
    let mut tpm = lying(&swtpm, READ_PUBLIC, |answer| {
        let at = answer.len() - 2 * 52 - 1;
        answer[at] ^= 1;
    });
    let refused = tpm.read_public(EK_P384, None).expect_err("another point");
    assert!(matches!(refused, TpmError::Unexpected { command: "TPM2_ReadPublic", .. }), "{refused}");
}

#[test]
fn a_session_salted_to_somebody_elses_key_does_not_open() {
    let (Some(swtpm), Some(theirs)) = (Swtpm::start(), Swtpm::start_distinct("impostor")) else { return };
    let ours = witnessed(&swtpm).read_public(EK_P384, None).expect("read").public().clone();
    // All of the impostor's public area, name included, stands in the answer; the TPM behind is ours.
    let mut impostor = theirs.socket().expect("connects");
    let mut tpm = through(&swtpm, move |tpm, command, response| {
        if code(command) == READ_PUBLIC {
            impostor.transmit(command, response)
        } else {
            tpm.transmit(command, response)
        }
    });
    let key = tpm.read_public(EK_P384, None).expect("consistent in itself");
    assert_ne!(key.public(), &ours, "the impostor's");
    let opened = tpm.start_session(&key).and_then(|mut session| tpm.pcr_value(15, &mut session));
    assert!(opened.is_err());
}

#[test]
fn the_public_area_of_another_index_is_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    // Header, length of the NV public area, index.
    let mut tpm = lying(&swtpm, NV_READ_PUBLIC, |answer| answer[10 + 2 + 3] ^= 1);
    let refused = tpm.nv_read(EkTemplate::RsaL1.certificate_index()).expect_err("another index");
    assert!(matches!(refused, TpmError::Unexpected { command: "TPM2_NV_ReadPublic", .. }), "{refused}");
}

#[test]
fn bytes_after_the_last_session_are_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = lying(&swtpm, PCR_READ, |answer| answer.push(0));
    let mut session = session(&mut tpm);
    let read = tpm.pcr_read(PcrSelection::new([15]).expect("selection"), &mut session);
    assert!(matches!(read, Err(TpmError::Malformed { command: "TPM2_PCR_Read", .. })));
    tpm.end_session(&session).expect("ended");
    drop(tpm);
    assert_empty(&swtpm);
}
