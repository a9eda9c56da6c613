//! Each command by itself.

use crate::swtpm::support::{EK_P384, assert_empty, implemented, session, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{Hierarchy, ResponseReason, TpmError};
use latchkey_tpm::wire::{EkTemplate, HashAlg, PcrSelection, attestation_key, extended, salt_key};

#[test]
fn capabilities_are_read() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    assert_eq!(&tpm.manufacturer().expect("manufacturer"), b"IBM\0");
    tpm.demand_sha256_bank().expect("banks");
    assert_eq!(tpm.pcr_banks().expect("banks"), [(HashAlg::Sha256.id(), 0x00ff_ffff)]);
    assert!(tpm.algorithms().expect("algorithms").contains(&HashAlg::Sha384.id()));
    assert_eq!(tpm.handles(0x8100_0000).expect("handles"), [0x8101_0001, EK_P384]);
}

#[test]
fn random_bytes_are_as_many_as_asked_for_and_differ() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    let first = tpm.random(32).expect("random");
    assert_eq!(first.len(), 32);
    assert_ne!(first, tpm.random(32).expect("random"));
    assert!(matches!(tpm.random(33), Err(TpmError::Argument(_))));
}

#[test]
fn keys_are_made_from_every_template() {
    let Some(swtpm) = Swtpm::start() else { return };
    let templates = implemented(&swtpm);
    let mut tpm = witnessed(&swtpm);
    for template in templates {
        let key = tpm.create_primary(Hierarchy::Endorsement, &template.public(), None).expect("created");
        assert_eq!(key.public().endorsement_template(), Some(template));
        assert_eq!(tpm.read_public(key.handle(), None).expect("read").name(), key.name());
        tpm.flush(key.handle()).expect("flushed");
    }
    for (hierarchy, template) in [(Hierarchy::Owner, salt_key()), (Hierarchy::Null, attestation_key())] {
        let key = tpm.create_primary(hierarchy, &template, None).expect("created");
        assert!(key.public().matches(&template));
        tpm.flush(key.handle()).expect("flushed");
    }
    drop(tpm);
    assert_empty(&swtpm);
}

#[test]
fn a_full_tpm_says_so_and_is_tidied_up() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    let mut create = || tpm.create_primary(Hierarchy::Null, &salt_key(), None);
    let refused = std::iter::repeat_with(&mut create).take(4).find_map(Result::err).expect("three slots");
    assert!(matches!(refused, TpmError::Refused { code, .. } if code.reason() == ResponseReason::Memory), "{refused}");
    drop(tpm);
    assert_empty(&swtpm);
}

#[test]
fn nv_is_read_in_pieces_and_absent_indices_are_none() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    let certificate = tpm.nv_read(EkTemplate::RsaL1.certificate_index()).expect("read").expect("certificate");
    assert!(certificate.len() > 512 && certificate.starts_with(&[0x30, 0x82]));
    assert_eq!(tpm.nv_read(EkTemplate::P256L2.certificate_index()).expect("read"), None);
    // No issuers' certificates in swtpm.
    assert_eq!(tpm.endorsement_chain().expect("read"), Vec::<Vec<u8>>::new());
}

#[test]
fn registers_are_read_extended_and_read_again() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    let mut session = session(&mut tpm);
    let all = PcrSelection::new(0..24).expect("selection");
    let values = tpm.pcr_read(all, &mut session).expect("read");
    assert_eq!(values.len(), 24);
    assert_eq!((values[&15], values[&17]), ([0; 32], [0xff; 32]));

    tpm.pcr_event_checked(15, b"cluster", &mut session).expect("event");
    let locked = extended(&[0; 32], b"cluster");
    assert_eq!(tpm.pcr_value(15, &mut session).expect("read"), locked);

    tpm.pcr_extend(15, &[9; 32], &mut session).expect("extend");
    let expected = HashAlg::Sha256.digest(&[&locked, &[9; 32]]);
    assert_eq!(tpm.pcr_value(15, &mut session).expect("read").to_vec(), expected);

    assert!(matches!(tpm.pcr_event(24, b"", &mut session), Err(TpmError::Argument(_))));
    assert!(matches!(tpm.pcr_event(15, &[0; 1025], &mut session), Err(TpmError::Argument(_))));
    // Still usable: a refused argument never reached the TPM.
    tpm.pcr_event(15, &[0; 1024], &mut session).expect("longest event");
    tpm.end_session(&session).expect("ended");
    drop(tpm);
    assert_empty(&swtpm);
}

#[test]
fn sessions_are_salted_to_p256_and_p384_and_to_nothing_else() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut tpm = witnessed(&swtpm);
    for template in [EkTemplate::P256L2, EkTemplate::P256H2, EkTemplate::P384H3] {
        let key = tpm.create_primary(Hierarchy::Endorsement, &template.public(), None).expect("created");
        let mut session = tpm.start_session(&key).expect("session");
        // A wrong salt shows here: the answer's HMAC would not verify.
        let again = tpm.read_public(key.handle(), Some(&mut session)).expect("authenticated");
        assert_eq!(again, key);
        tpm.end_session(&session).expect("ended");
        tpm.flush(key.handle()).expect("flushed");
    }
    let rsa = tpm.read_public(0x8101_0001, None).expect("read");
    assert!(matches!(tpm.start_session(&rsa), Err(TpmError::SaltKey)));
}
