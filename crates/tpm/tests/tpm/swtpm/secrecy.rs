//! What somebody who reads the bus learns of a secret that the TPM gives away. `tpm2_makecredential` makes the credentials.

use crate::swtpm::interposer::every_byte_of_the_answer;
use crate::swtpm::support::{ACTIVATE, EK_P384, START_SESSION, assert_empty, attester, code, through, witnessed};
use crate::swtpm::tools::hex;
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, Hierarchy, Tpm, TpmCode, TpmError, Transport};
use latchkey_tpm::wire::{Credential, EkTemplate, Public, attestation_key};
use std::fs;
use std::sync::{Arc, Mutex};

const SECRET: &[u8; 32] = b"thirty-two bytes of some secret.";

/// `SECRET` for the TPM that has `ek` and our attestation key; none without the tool.
fn credential(swtpm: &Swtpm, ek: &Public, ak: &Public) -> Option<Vec<u8>> {
    let area = ek.marshal();
    let length = u16::try_from(area.len()).expect("short").to_be_bytes();
    fs::write(swtpm.directory().join("ek.pub"), [&length[..], &area].concat()).expect("written");
    fs::write(swtpm.directory().join("secret"), SECRET).expect("written");
    let name = hex(&ak.name());
    let arguments = ["-T", "none", "-u", "ek.pub", "-s", "secret", "-n", &name, "-o", "credential"];
    swtpm.tool("tpm2_makecredential", &arguments)?;
    // After the tools' header.
    Some(fs::read(swtpm.directory().join("credential")).expect("read")[8..].to_vec())
}

/// What passes between the two, in order: commands and answers.
type Capture = Arc<Mutex<Vec<Vec<u8>>>>;

fn recorded(swtpm: &Swtpm) -> (Tpm, Capture) {
    let capture = Capture::default();
    let seen = capture.clone();
    let tpm = through(swtpm, move |tpm, command, response| {
        tpm.transmit(command, response)?;
        seen.lock().expect("not poisoned").extend([command.to_vec(), response.clone()]);
        Ok(())
    });
    (tpm, capture)
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// No eight bytes in a row, that is: not a part of it either.
fn holds_some(bytes: &[u8], secret: &[u8]) -> bool {
    secret.windows(8).any(|part| holds(bytes, part))
}

#[test]
fn the_activated_secret_never_passes_the_bus_in_the_clear() {
    let Some(swtpm) = Swtpm::start() else { return };
    // A session salted to the endorsement key, and to a key made for the purpose.
    for template in [EkTemplate::P384H3, EkTemplate::RsaL1, EkTemplate::P521H4] {
        let first = attester(witnessed(&swtpm), template);
        let (ek, ak) = (first.ek_public().clone(), first.ak_public().clone());
        drop(first);
        let Some(credential) = credential(&swtpm, &ek, &ak) else { return };
        let (tpm, capture) = recorded(&swtpm);
        let mut attester = attester(tpm, template);
        assert_eq!(attester.activate(&credential).expect("activated").as_slice(), SECRET, "{template}");
        let again = attester.activate(&credential).expect("activated");
        assert_eq!(again.as_slice(), SECRET, "in the same session, with other nonces");
        drop(attester);

        let capture = capture.lock().expect("not poisoned");
        let at: Vec<usize> = (0..capture.len()).filter(|at| at % 2 == 0 && code(&capture[*at]) == ACTIVATE).collect();
        assert_eq!(at.len(), 2, "both passed by");
        // The capture is complete: the attestation key's name is in it, and the secret's length, both in the clear.
        assert!(capture.iter().any(|bytes| holds(bytes, &ak.name())));
        let encrypted = at.iter().map(|at| capture[at + 1][14..48].to_vec()).collect::<Vec<_>>();
        assert!(encrypted.iter().all(|parameter| parameter[..2] == [0, 32]));
        assert_ne!(encrypted[0], encrypted[1], "one secret, twice");
        for bytes in capture.iter() {
            assert!(!holds_some(bytes, SECRET), "{template}: {bytes:02x?}");
        }
    }
    assert_empty(&swtpm);
}

#[test]
fn a_changed_answer_with_a_secret_is_noticed() {
    let Some(swtpm) = Swtpm::start() else { return };
    let (ek, ak) = {
        let attester = attester(witnessed(&swtpm), EkTemplate::P384H3);
        (attester.ek_public().clone(), attester.ak_public().clone())
    };
    let Some(credential) = credential(&swtpm, &ek, &ak) else { return };
    drop(swtpm);
    let credential = Credential::parse(&credential).expect("credential");
    // All TPMs of this process have the same keys. The policy session's nonce and attributes, and an HMAC of no bytes, come last.
    every_byte_of_the_answer(ACTIVATE, 2 + 32 + 1 + 2, |tpm, session| {
        let ek = tpm.read_public(EK_P384, None)?;
        let ak = tpm.create_primary(Hierarchy::Endorsement, &attestation_key(), None).expect("created");
        let activated = tpm.activate_credential(&ak, &ek, &credential, session);
        tpm.flush(ak.handle()).expect("flushed");
        assert!(activated.as_ref().map_or(true, |secret| secret.as_slice() == SECRET));
        activated.map(drop)
    });
}

#[test]
fn a_changed_secret_is_refused_as_tampered() {
    let Some(swtpm) = Swtpm::start() else { return };
    let first = attester(witnessed(&swtpm), EkTemplate::P384H3);
    let (ek, ak) = (first.ek_public().clone(), first.ak_public().clone());
    drop(first);
    let Some(credential) = credential(&swtpm, &ek, &ak) else { return };
    let tpm = through(&swtpm, |tpm, command, response| {
        tpm.transmit(command, response)?;
        if code(command) == ACTIVATE {
            // The first byte of the secret, as it is encrypted.
            response[16] ^= 1;
        }
        Ok(())
    });
    let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("attester");
    let refused = attester.activate(&credential).expect_err("changed");
    assert!(matches!(refused, TpmError::Tampered { command: "TPM2_ActivateCredential" }), "{refused}");
    assert_eq!(refused.code(), TpmCode::Tampered);
}

/// Somebody on the bus asks for sessions without a cipher, and strips the commands of their wish for one.
#[test]
fn whoever_takes_the_cipher_out_of_a_session_gets_no_secret() {
    let Some(swtpm) = Swtpm::start() else { return };
    let first = attester(witnessed(&swtpm), EkTemplate::P384H3);
    let (ek, ak) = (first.ek_public().clone(), first.ak_public().clone());
    drop(first);
    let Some(credential) = credential(&swtpm, &ek, &ak) else { return };
    for strip_attribute in [false, true] {
        let capture = Capture::default();
        let seen = capture.clone();
        let tpm = through(&swtpm, move |tpm, command, response| {
            let mut command = command.to_vec();
            let cipher = [0, 0x06, 0, 128, 0, 0x43, 0, 0x0b];
            if code(&command) == START_SESSION && command.ends_with(&cipher) {
                command.truncate(command.len() - cipher.len());
                command.extend([0, 0x10, 0, 0x0b]);
                let length = u32::try_from(command.len()).expect("short").to_be_bytes();
                command[2..6].copy_from_slice(&length);
            }
            if code(&command) == ACTIVATE && strip_attribute {
                // Header, two handles, the area's size, the session's handle, its nonce: then the attributes.
                let attributes = &mut command[10 + 8 + 4 + 4 + 34];
                assert_eq!(*attributes, 0x41);
                *attributes = 1;
            }
            tpm.transmit(&command, response)?;
            seen.lock().expect("not poisoned").push(response.clone());
            Ok(())
        });
        let mut attester = AttestingTpm::new(tpm, EkTemplate::P384H3).expect("everything else works");
        let refused = attester.activate(&credential).expect_err("no cipher");
        assert!(matches!(refused, TpmError::Refused { command: "TPM2_ActivateCredential", .. }), "{refused}");
        drop(attester);
        assert!(capture.lock().expect("not poisoned").iter().all(|bytes| !holds_some(bytes, SECRET)));
        assert_empty(&swtpm);
    }
}
