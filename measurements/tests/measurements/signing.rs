//! Manifests that are signed here, and stock `minisign` (Debian's) as the second opinion on both sides.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use latchkey_attestation::reference::{
    Authority, Description, ManifestFile, ManifestName, Origin, PlatformProfile, Reference, Signature,
};
use latchkey_attestation::{Digest, ReasonCode, ReferenceValues, SignerKey};
use latchkey_keys::SecretVec;
use latchkey_measurements::signing::{SigningError, SigningKey, public_key_file};

fn manifest() -> ReferenceValues {
    let about = Description {
        manifest: ManifestName::new("demo").unwrap(),
        serial: 3,
        image: "demo",
        version: "1.0.0".parse().unwrap(),
        by: "a test",
        at: None,
    };
    let value = Digest([7; 32]);
    let origin = Origin { products: [("demo.raw".to_owned(), value)].into(), ..Origin::default() };
    let machine = PlatformProfile::new("qemu", [(11, Reference::enforced(value))].into());
    ReferenceValues::predicted(&about, origin, vec![machine]).unwrap()
}

fn no_password() -> Result<SecretVec, SigningError> {
    panic!("the key is not encrypted")
}

/// Runs minisign in this directory; `None`, and a line that says so, where it is not installed.
fn minisign(directory: &Path, arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("minisign");
    command.args(arguments).current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        latchkey_test_support::skip("minisign is missing: apt-get install minisign");
        return None;
    };
    // It may not ask.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    // A password costs it a gigabyte of memory and the time to fill that.
    Some(latchkey_test_support::finish_within(Duration::from_mins(10), "minisign", child))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn stock_minisign_verifies_what_is_signed_here() {
    let directory = tempfile::tempdir().unwrap();
    let key = SigningKey::generate().unwrap();
    let signed = key.sign_manifest(&manifest()).unwrap();
    fs::write(directory.path().join("reference.json"), &signed.manifest).unwrap();
    fs::write(directory.path().join("reference.json.minisig"), &signed.signature).unwrap();
    fs::write(directory.path().join("release.pub"), public_key_file(&key.public())).unwrap();
    let Some(ran) = minisign(directory.path(), &["-V", "-m", "reference.json", "-p", "release.pub"], "") else {
        return;
    };
    assert!(ran.status.success(), "{ran:?}");
    assert!(text(&ran.stdout).contains("Trusted comment: manifest:demo serial:3"), "{ran:?}");
    fs::write(directory.path().join("reference.json"), signed.manifest.replace("demo", "demi")).unwrap();
    let ran = minisign(directory.path(), &["-V", "-m", "reference.json", "-p", "release.pub"], "").unwrap();
    assert!(!ran.status.success(), "{ran:?}");
}

#[test]
fn what_stock_minisign_signs_is_verified_here_in_both_forms() {
    let directory = tempfile::tempdir().unwrap();
    let made = minisign(directory.path(), &["-G", "-W", "-p", "release.pub", "-s", "release.key"], "");
    let Some(made) = made else { return };
    assert!(made.status.success(), "{made:?}");
    let public = fs::read_to_string(directory.path().join("release.pub")).unwrap();
    let signer: SignerKey = public.lines().nth(1).unwrap().parse().unwrap();
    assert_eq!(public_key_file(&signer), public);
    let json = manifest().to_json();
    fs::write(directory.path().join("reference.json"), &json).unwrap();
    for form in ["-H", "-l"] {
        let arguments = ["-S", form, "-s", "release.key", "-m", "reference.json", "-t", "edge 3\tfirst"];
        let ran = minisign(directory.path(), &arguments, "").unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let signature = fs::read(directory.path().join("reference.json.minisig")).unwrap();
        let file = ManifestFile::new(json.clone().into_bytes(), Some(signature));
        let authentic = file.signed_by_one_of(&[signer]).unwrap();
        let comment = "edge 3\tfirst".to_owned();
        assert_eq!(authentic.authority(), &Authority::Signed { signer, trusted_comment: comment });
        assert_eq!(authentic.values(), &manifest());
    }
}

#[test]
fn keys_without_a_password_are_the_same_in_both_programs() {
    let directory = tempfile::tempdir().unwrap();
    let key = SigningKey::generate().unwrap();
    let file = key.to_file(None).unwrap();
    assert!(text(file.expose()).contains("UNENCRYPTED"));
    let again = SigningKey::parse(file.expose(), no_password).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(again.sign_manifest(&manifest()).unwrap(), key.sign_manifest(&manifest()).unwrap());

    fs::write(directory.path().join("ours.key"), file.expose()).unwrap();
    fs::write(directory.path().join("reference.json"), "{}").unwrap();
    let Some(ran) = minisign(directory.path(), &["-S", "-s", "ours.key", "-m", "reference.json"], "") else { return };
    assert!(ran.status.success(), "{ran:?}");
    let signature = Signature::parse(&fs::read(directory.path().join("reference.json.minisig")).unwrap()).unwrap();
    key.public().verify(b"{}", &signature).unwrap();

    minisign(directory.path(), &["-G", "-W", "-p", "theirs.pub", "-s", "theirs.key"], "").unwrap();
    let theirs = fs::read(directory.path().join("theirs.key")).unwrap();
    let theirs = SigningKey::parse(&theirs, no_password).unwrap();
    assert_eq!(public_key_file(&theirs.public()), fs::read_to_string(directory.path().join("theirs.pub")).unwrap());
}

/// As minisign wrote it for a key of its own.
#[test]
fn a_key_s_number_that_begins_with_zeros_stands_in_its_file_as_minisign_writes_it() {
    let key = "RWQAjc4DhUzfA/2ouPb19v1D6eg600OqKx4e/yLrPlq9HzG9zezvUo3M";
    let file = public_key_file(&key.parse().unwrap());
    assert_eq!(file, format!("untrusted comment: minisign public key 3DF4C8503CE8D00\n{key}\n"));
}

#[test]
fn keys_with_a_password_are_the_same_in_both_programs_and_open_with_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let password = |text: &str| -> Result<_, SigningError> { Ok(SecretVec::from_slice(text.as_bytes())) };
    let key = SigningKey::generate().unwrap();
    let file = key.to_file(Some(&password("correct horse").unwrap())).unwrap();
    assert_eq!(SigningKey::parse(file.expose(), || password("wrong")).unwrap_err(), SigningError::WrongPassword);
    fs::write(directory.path().join("ours.key"), file.expose()).unwrap();
    fs::write(directory.path().join("f"), "{}").unwrap();
    let Some(ran) = minisign(directory.path(), &["-S", "-s", "ours.key", "-m", "f"], "correct horse\n") else { return };
    assert!(ran.status.success(), "{ran:?}");
    let signature = Signature::parse(&fs::read(directory.path().join("f.minisig")).unwrap()).unwrap();
    key.public().verify(b"{}", &signature).unwrap();

    let ran =
        minisign(directory.path(), &["-G", "-p", "theirs.pub", "-s", "theirs.key"], "battery\nbattery\n").unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let theirs = fs::read(directory.path().join("theirs.key")).unwrap();
    let theirs = SigningKey::parse(&theirs, || password("battery")).unwrap();
    assert_eq!(public_key_file(&theirs.public()), fs::read_to_string(directory.path().join("theirs.pub")).unwrap());
}

#[test]
fn a_damaged_or_costly_key_file_is_refused_before_anything_is_computed() {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let file = SigningKey::generate().unwrap().to_file(None).unwrap();
    let file = text(file.expose());
    let (comment, line) = file.trim_end().split_once('\n').unwrap();
    let bytes = base64.decode(line).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        SigningKey::parse(format!("{comment}\n{}\n", base64.encode(bytes)).as_bytes(), || {
            Ok::<_, SigningError>(SecretVec::from_slice(b"x"))
        })
    };
    assert!(with(&|_| ()).is_ok());
    for at in 54..bytes.len() {
        assert_eq!(with(&|bytes| bytes[at] ^= 1).unwrap_err(), SigningError::Damaged, "byte {at}");
    }
    assert_eq!(with(&|bytes| bytes[0] = b'X').unwrap_err(), SigningError::NotAKey);
    assert_eq!(with(&|bytes| bytes[2] = 1).unwrap_err(), SigningError::NotAKey);
    assert_eq!(with(&|bytes| bytes.truncate(157)).unwrap_err(), SigningError::NotAKey);
    let costly = with(&|bytes| {
        bytes[2..4].copy_from_slice(b"Sc");
        bytes[38..54].fill(0xff);
    });
    assert_eq!(costly.unwrap_err(), SigningError::TooCostly);
    for nonsense in [&b""[..], b"untrusted comment: x", b"\xff\xff", "x\n".repeat(9000).as_bytes()] {
        assert_eq!(SigningKey::parse(nonsense, no_password).unwrap_err(), SigningError::NotAKey);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let key = SigningKey::generate().unwrap();
    let signed = key.sign_manifest(&manifest()).unwrap();
    let check = |manifest: &[u8], signature: &[u8]| {
        ManifestFile::new(manifest.to_vec(), Some(signature.to_vec())).signed_by_one_of(&[key.public()])
    };
    let (manifest, signature) = (signed.manifest.as_bytes(), signed.signature.as_bytes());
    check(manifest, signature).unwrap();
    for bit in 0..manifest.len() * 8 {
        let mut flipped = manifest.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let refusal = check(&flipped, signature).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ReferenceSignatureInvalid, "manifest, bit {bit}");
    }
    // The text of the untrusted comment is nobody's word, and its being untrusted is its point.
    let untrusted = "untrusted comment: ".len()..signed.signature.find('\n').unwrap();
    for bit in 0..signature.len() * 8 {
        let mut flipped = signature.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if !untrusted.contains(&(bit / 8)) {
            assert!(check(manifest, &flipped).is_err(), "signature, bit {bit}");
        }
    }
}

#[test]
fn a_signature_by_another_key_of_the_same_number_is_refused() {
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let signed = other.sign_manifest(&manifest()).unwrap();
    let file = || ManifestFile::new(signed.manifest.clone().into_bytes(), Some(signed.signature.clone().into_bytes()));
    let refusal = file().signed_by_one_of(&[key.public()]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ReferenceSignatureUnknownSigner);
    let public = key.public().to_string().parse::<SignerKey>().unwrap();
    assert_eq!(public, key.public());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&decoded(&key.public())[10..]);
    let same_number = SignerKey::new(other.public().id(), bytes);
    let refusal = file().signed_by_one_of(&[same_number]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ReferenceSignatureInvalid);
    // A colliding number beside the right key takes nothing from it.
    file().signed_by_one_of(&[same_number, other.public()]).unwrap();
}

fn decoded(key: &SignerKey) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(key.to_string()).unwrap()
}
