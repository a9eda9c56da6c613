//! Endorsement keys of RSA 3072, RSA 4096 and P-521, with swtpm where it makes such keys and with openssl as another library where it
//! does not; and certificates from authorities with such keys. Skipped with a line that says so where a program is missing.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{BINDING, pinned};
use latchkey_attestation::refusal::ReasonCode;
use latchkey_attestation::{Appraisal, AttesterIdentity, EkDigest, EkTrust, PcrValues, Policy, TpmEvidence};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{Credential, EkTemplate, HashAlg, Public, PublicKey, attestation_key, kdf_a};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

/// With the salt that RFC 8017 recommends, which verifiers demand.
const PSS: &str = "-newkey rsa:4096 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:-1";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn policy(trust: Value, template: EkTemplate) -> Policy {
    let mut json = support::policy_json(trust);
    json["ek_templates"] = json!([template.name()]);
    support::policy(&json)
}

fn identity(attester: &AttestingTpm, certificate: Option<Vec<u8>>) -> AttesterIdentity {
    let (ek, ak) = (attester.ek_public().marshal(), attester.ak_public().marshal());
    AttesterIdentity::new(ek, certificate, Vec::new(), ak).unwrap()
}

/// Runs openssl in `directory`; `None`, and a line that says so, where it is not installed.
fn openssl(directory: &Path, arguments: &str) -> Option<Vec<u8>> {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(directory);
    let output = match latchkey_test_support::output(&mut command) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            latchkey_test_support::skip("openssl is not installed");
            return None;
        }
        other => other.unwrap(),
    };
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// The whole way: a credential that the TPM opens, a quote that verifies.
fn trusted(policy: &Policy, identity: &AttesterIdentity, attester: &mut AttestingTpm) -> EkTrust {
    let (challenge, pending) = Appraisal::begin(policy, identity, now(), &SystemRandom::new()).unwrap();
    let secret = attester.activate(challenge.credential()).unwrap();
    let quote = attester.quote(&challenge.pcrs().selection().unwrap(), &BINDING).unwrap();
    let pcrs = PcrValues::new(quote.pcrs).unwrap();
    let evidence = TpmEvidence::new(quote.attest, quote.signature, pcrs, secret, None).unwrap();
    let verified = pending.confirm(evidence.activated_secret()).unwrap().verify(&evidence, &BINDING).unwrap();
    verified.trust().clone()
}

#[test]
fn a_tpm_opens_what_is_made_for_its_large_keys() {
    let Some(swtpm) = Swtpm::start() else { return };
    for template in [EkTemplate::Rsa3072H6, EkTemplate::P521H4] {
        let mut attester = AttestingTpm::new(swtpm.connect().unwrap(), template).unwrap();
        let digest = EkDigest::of_public_area(&attester.ek_public().marshal()).unwrap();
        let identity = identity(&attester, None);
        // Of two points on P-521, one has a coordinate that begins with a zero.
        for _ in 0..4 {
            let trust = trusted(&policy(pinned(&[digest]), template), &identity, &mut attester);
            assert_eq!(trust, EkTrust::PinnedEk, "{template}");
        }
    }
}

/// swtpm's authority has an RSA key of its own; makers of TPMs with large keys sign with large keys.
#[test]
fn certificates_of_large_keys_signed_with_large_keys_are_verified() {
    let Some(swtpm) = Swtpm::start() else { return };
    let at = swtpm.directory();
    fs::write(at.join("ek.ext"), "extendedKeyUsage=2.23.133.8.1\nbasicConstraints=critical,CA:FALSE\n").unwrap();
    let p521 = "-newkey ec -pkeyopt ec_paramgen_curve:P-521";
    let authorities = [
        ("p521", p521, "sha512", EkTemplate::P521H4),
        ("p521-sha384", p521, "sha384", EkTemplate::Rsa3072H6),
        ("p384-sha512", "-newkey ec -pkeyopt ec_paramgen_curve:P-384", "sha512", EkTemplate::P521H4),
        ("rsa4096", "-newkey rsa:4096", "sha512", EkTemplate::P521H4),
        ("rsa4096-sha384", "-newkey rsa:4096", "sha384", EkTemplate::Rsa3072H6),
        ("rsa4096-pss", PSS, "sha384", EkTemplate::P521H4),
    ];
    for (name, key, hash, template) in authorities {
        let made =
            format!("req -x509 {key} -nodes -days 30 -{hash} -subj /CN={name} -keyout {name}.key -out {name}.pem");
        let Some(_) = openssl(at, &made) else { return };
        let mut attester = AttestingTpm::new(swtpm.connect().unwrap(), template).unwrap();
        fs::write(at.join("ek.der"), subject_public_key_info(attester.ek_public())).unwrap();
        let padding = PSS.strip_prefix("-newkey rsa:4096").filter(|_| key == PSS).unwrap_or_default();
        openssl(at, "pkey -pubin -inform der -in ek.der -pubout -out ek.pem").unwrap();
        let der = openssl(at, "pkey -pubin -in ek.pem -pubout -outform der").unwrap();
        let of_file = EkDigest::of_subject_public_key_info(&der, |_| true).unwrap();
        assert_eq!(of_file, EkDigest::of_public_area(&attester.ek_public().marshal()).unwrap(), "{template}");
        openssl(
            at,
            &format!(
                "x509 -new -subj /CN=ek -days 30 -{hash} {padding} -force_pubkey ek.pem -CA {name}.pem -CAkey {name}.key \
                 -extfile ek.ext -outform der -out ek.crt"
            ),
        )
        .unwrap();
        let certificate = fs::read(at.join("ek.crt")).unwrap();
        let root = fs::read_to_string(at.join(format!("{name}.pem"))).unwrap();
        let policy = policy(json!({"kind": "ek-chain", "roots": [root]}), template);
        let trust = trusted(&policy, &identity(&attester, Some(certificate.clone())), &mut attester);
        assert!(matches!(trust, EkTrust::EkChain { .. }), "{name}");

        // The last bit is the signature's.
        let mut changed = certificate;
        *changed.last_mut().unwrap() ^= 1;
        let changed = identity(&attester, Some(changed));
        let refusal = Appraisal::begin(&policy, &changed, now(), &SystemRandom::new()).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::EkCertificateBadSignature, "{name}");
    }
}

/// What openssl makes of the key: RFC 5480 and RFC 8017, written here a second time.
fn subject_public_key_info(ek: &Public) -> Vec<u8> {
    let sequence = |tag: u8, content: &[u8]| match u16::try_from(content.len()).unwrap() {
        short @ 0..=127 => [&[tag, u8::try_from(short).unwrap()], content].concat(),
        long => [&[tag, 0x82][..], &long.to_be_bytes(), content].concat(),
    };
    let (algorithm, key) = match &ek.key {
        PublicKey::Rsa { modulus, .. } => {
            let number = sequence(2, &[&[0][..], modulus].concat());
            let rsa = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
            (rsa.to_vec(), sequence(0x30, &[&number[..], &[2, 3, 1, 0, 1]].concat()))
        }
        PublicKey::Ecc { curve, point } => {
            let ec = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
            (ec.to_vec(), point.uncompressed(*curve).unwrap())
        }
    };
    let bits = sequence(3, &[&[0][..], &key].concat());
    sequence(0x30, &[sequence(0x30, &algorithm), bits].concat())
}

/// No swtpm here makes RSA-4096 keys: openssl has the private half, and takes the credential apart.
#[test]
fn openssl_opens_what_is_made_for_an_rsa_4096_key() {
    let directory = std::env::temp_dir().join(format!("latchkey-rsa-4096-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let Some(_) = openssl(&directory, "genrsa -out ek.key 4096") else { return };
    let modulus = String::from_utf8(openssl(&directory, "rsa -in ek.key -noout -modulus").unwrap()).unwrap();
    let modulus = hex::decode(modulus.trim().strip_prefix("Modulus=").unwrap()).unwrap();
    let mut ek = EkTemplate::Rsa4096H7.public();
    ek.key = PublicKey::Rsa { bits: 4096, exponent: 0, modulus };
    let mut ak = attestation_key();
    let PublicKey::Ecc { point, .. } = &mut ak.key else { panic!("an ECC key") };
    (point.x, point.y) = (vec![1; 32], vec![2; 32]);

    let digest = EkDigest::of_public_area(&ek.marshal()).unwrap();
    let der = openssl(&directory, "rsa -in ek.key -pubout -outform der").unwrap();
    assert_eq!(EkDigest::of_subject_public_key_info(&der, |_| true).unwrap(), digest);
    let identity = AttesterIdentity::new(ek.marshal(), None, Vec::new(), ak.marshal()).unwrap();
    let policy = policy(pinned(&[digest]), EkTemplate::Rsa4096H7);
    let (challenge, pending) = Appraisal::begin(&policy, &identity, now(), &SystemRandom::new()).unwrap();
    let credential = Credential::parse(challenge.credential()).unwrap();

    fs::write(directory.join("seed"), &credential.secret).unwrap();
    let label = hex::encode(b"IDENTITY\0");
    let seed = openssl(
        &directory,
        &format!(
            "pkeyutl -decrypt -inkey ek.key -in seed -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha384 \
             -pkeyopt rsa_mgf1_md:sha384 -pkeyopt rsa_oaep_label:{label}"
        ),
    )
    .unwrap();
    assert_eq!(seed.len(), 48);
    let hmac_key = kdf_a(HashAlg::Sha384, &seed, "INTEGRITY", &[], &[], 384);
    let integrity = HashAlg::Sha384.hmac(&hmac_key, &[&credential.identity, &ak.name()]);
    assert_eq!(integrity.as_ref(), credential.integrity);
    let key = kdf_a(HashAlg::Sha384, &seed, "STORAGE", &ak.name(), &[], 256);
    fs::write(directory.join("identity"), &credential.identity).unwrap();
    let key = hex::encode(&*key);
    let iv = "0".repeat(32);
    let opened = openssl(&directory, &format!("enc -d -aes-256-cfb -K {key} -iv {iv} -in identity")).unwrap();
    let secret = opened.strip_prefix(&[0, 32]).unwrap().to_vec();
    assert!(pending.confirm(&secret).is_ok());
    fs::remove_dir_all(directory).unwrap();
}
