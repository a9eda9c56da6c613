//! Signing and enrolling, beside what sbverify, openssl and the reader of variable stores think of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sample::{Sample, found, run};
use latchkey_image::ImageConfig;
use latchkey_image::secure_boot::{Keys, certificate_from_pem};
use latchkey_image::{SecureBoot, SecureBootError, Signer};
use latchkey_keys::read_private_file;
use latchkey_measurements::pe_sample;
use latchkey_measurements::predict::SignatureDatabases;
use latchkey_measurements::predict::variables::VariableStore;

/// A new key with its certificate; none without openssl.
fn key(directory: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let openssl = found("openssl", "openssl")?;
    let (key, certificate) = (directory.join(format!("{name}.key")), directory.join(format!("{name}.pem")));
    let mut command = Command::new(openssl);
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj"]).arg(format!("/CN={name}"));
    run(command.arg("-keyout").arg(&key).arg("-out").arg(&certificate));
    Some((key, certificate))
}

fn signer((key, certificate): &(PathBuf, PathBuf)) -> Result<Signer, SecureBootError> {
    Signer::from_pem(&read_private_file(key, 1 << 16).unwrap(), &fs::read(certificate).unwrap())
}

/// Whether sbverify takes this image for signed with this certificate.
fn verified(sbverify: &Path, certificate: &Path, image: &[u8]) -> bool {
    let file = certificate.with_extension("efi");
    fs::write(&file, image).unwrap();
    let output = latchkey_test_support::output(Command::new(sbverify).arg("--cert").arg(certificate).arg(&file));
    output.unwrap().status.success()
}

/// An empty variable store, laid out as OVMF's.
fn template() -> Vec<u8> {
    let mut file = vec![0xff; 0x21000];
    file[..16].fill(0);
    file[16..32].copy_from_slice(&[
        0x8d, 0x2b, 0xf1, 0xff, 0x96, 0x76, 0x8b, 0x4c, 0xa9, 0x85, 0x27, 0x47, 0x07, 0x5b, 0x4f, 0x50,
    ]);
    file[32..40].copy_from_slice(&0x21000_u64.to_le_bytes());
    file[40..44].copy_from_slice(b"_FVH");
    file[48..50].copy_from_slice(&0x48_u16.to_le_bytes());
    file[0x48..0x58].copy_from_slice(&[
        0x78, 0x2c, 0xf3, 0xaa, 0x7b, 0x94, 0x9a, 0x43, 0xa1, 0x80, 0x2e, 0x14, 0x4e, 0xc3, 0x77, 0x92,
    ]);
    file[0x58..0x5c].copy_from_slice(&0x1ffb8_u32.to_le_bytes());
    file[0x5c..0x64].copy_from_slice(&[0x5a, 0xfe, 0, 0, 0, 0, 0, 0]);
    file
}

#[test]
fn a_signature_is_one_that_sbverify_takes_and_a_changed_image_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let Some(ours) = key(directory.path(), "ours") else { return };
    let theirs = key(directory.path(), "theirs").unwrap();
    let unsigned = pe_sample::stub(5);
    let signed = signer(&ours).unwrap().sign(&unsigned).unwrap();
    assert_eq!(signed, signer(&ours).unwrap().sign(&unsigned).unwrap());
    assert_eq!(signer(&ours).unwrap().sign(&signed), Err(SecureBootError::NoImage));

    let Some(sbverify) = found("sbverify", "sbsigntool") else { return };
    assert!(verified(&sbverify, &ours.1, &signed));
    assert!(!verified(&sbverify, &theirs.1, &signed));
    assert!(!verified(&sbverify, &ours.1, &unsigned));
    let mut changed = signed.clone();
    changed[0x210] ^= 1;
    assert!(!verified(&sbverify, &ours.1, &changed));
    let mut forged = signed;
    let last = forged.len() - 32;
    forged[last] ^= 1;
    assert!(!verified(&sbverify, &ours.1, &forged));
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(ours) = key(directory.path(), "ours") else { return };
    let theirs = key(directory.path(), "theirs").unwrap();
    assert_eq!(signer(&(ours.0.clone(), theirs.1)).unwrap_err(), SecureBootError::KeyOfAnother);
    let private = read_private_file(&ours.0, 1 << 16).unwrap();
    assert_eq!(Signer::from_pem(&private, private.expose()).unwrap_err(), SecureBootError::Certificate);
    let certificate = fs::read(&ours.1).unwrap();
    let no_key = latchkey_keys::SecretVec::from_slice(&certificate);
    assert_eq!(Signer::from_pem(&no_key, &certificate).unwrap_err(), SecureBootError::Key);
    let nothing = Signer::from_pem(&private, &certificate).unwrap().sign(b"MZ nothing");
    assert_eq!(nothing, Err(SecureBootError::NoImage));
}

#[test]
fn an_enrolled_store_has_the_keys_in_force_and_secure_boot_on() {
    let keys = Keys { platform: vec![1; 700], exchange: vec![2; 701], image: vec![3; 702] };
    let store = keys.enroll(&template()).unwrap();
    assert_eq!(store.len(), template().len());
    let variables = VariableStore::parse(&store).unwrap();
    assert_eq!(variables.len(), 4);
    assert!(variables.secure_boot());
    let databases = SignatureDatabases::of(&variables).unwrap();
    let [(_, pk), (_, kek), (_, db)] = keys.lists();
    assert_eq!((&databases.pk, &databases.kek, &databases.db), (&pk, &kek, &db));
    assert!(databases.dbx.is_empty());
    // EFI_SIGNATURE_LIST, EFI_SIGNATURE_DATA, certificate.
    assert_eq!((db.len(), &db[44..]), (28 + 16 + 702, &[3; 702][..]));
}

#[test]
fn a_store_that_has_variables_or_no_room_is_no_template() {
    let keys = Keys { platform: vec![1; 700], exchange: vec![2; 701], image: vec![3; 702] };
    let enrolled = keys.enroll(&template()).unwrap();
    assert_eq!(keys.enroll(&enrolled), Err(SecureBootError::Template));
    let large = Keys { image: vec![3; 0x21000], ..keys.clone() };
    assert_eq!(large.enroll(&template()), Err(SecureBootError::Template));
    for cut in [0, 47, 0x50, 0x5b, 0x1000] {
        assert_eq!(keys.enroll(&template()[..cut]), Err(SecureBootError::Template));
    }
}

#[test]
fn debian_s_template_is_one() {
    let file = Path::new("/usr/share/OVMF/OVMF_VARS_4M.fd");
    if !file.is_file() {
        latchkey_test_support::skip(format_args!("{} is missing: apt-get install ovmf", file.display()));
        return;
    }
    let keys = Keys { platform: vec![1; 700], exchange: vec![2; 701], image: vec![3; 702] };
    let store = keys.enroll(&fs::read(file).unwrap()).unwrap();
    assert!(VariableStore::parse(&store).unwrap().secure_boot());
}

#[test]
fn keys_without_anything_to_predict_for_are_refused_and_no_machines_said_aloud_are_not() {
    let sample = Sample::new();
    if key(&sample.path(""), "ours").is_none() {
        return;
    }
    let configured = |more: &str| {
        let text = format!(
            r#"{{"schema": 1, "name": "sample", "version": "1.0.0", "kernel": "k", "modules": "m", "agent": "a",
                "root": "r", "command_line": "", "secure_boot": {{"key": "ours.key", "certificate": "ours.pem"}}{more}}}"#
        );
        ImageConfig::parse(text.as_bytes()).unwrap().image(&sample.path(""))
    };
    let error = configured("").unwrap_err();
    let remedy = error.remedy().unwrap();
    assert!(remedy.contains("add \"variables\"") && remedy.contains("\"machines\": []"), "{error}: {remedy}");
    assert!(configured(r#", "machines": []"#).is_ok());
}

#[test]
fn a_build_with_keys_hands_out_what_to_enroll() {
    let sample = Sample::new();
    let Some(ours) = key(&sample.path(""), "ours") else { return };
    let platform = key(&sample.path(""), "platform").unwrap();
    let secure_boot = || SecureBoot {
        signer: signer(&ours).unwrap(),
        platform: Some(certificate_from_pem(&fs::read(&platform.1).unwrap()).unwrap()),
        exchange: None,
        variables: None,
    };
    let mut image = sample.image();
    image.secure_boot = Some(secure_boot());
    let built = image.build(&sample.out("a"), &mut |_| {}).unwrap();
    let again = image.build(&sample.out("b"), &mut |_| {}).unwrap();
    assert_eq!(built.parts, again.parts);
    for (variable, list) in secure_boot().keys().lists() {
        assert_eq!(fs::read(sample.out("a").join(format!("sample_1.2.3.{variable}.esl"))).unwrap(), list);
    }
    if let Some(sbverify) = found("sbverify", "sbsigntool") {
        assert!(verified(&sbverify, &ours.1, &fs::read(&built.uki).unwrap()));
        assert!(!verified(&sbverify, &platform.1, &fs::read(&built.uki).unwrap()));
    }
}
