//! A machine that quotes with its cloud's attestation key: recorded, and verified, by the authority that certified the key. The TPM
//! is real code (swtpm). Skipped, and says so, where that or tpm2-tools are not installed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::sync::{Arc, Mutex};

use crate::support::node::{FakeNode, Tpm};
use crate::support::operator::Operator;
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestationKeySource, AttestingTpm, Hierarchy};
use latchkey_tpm::wire::{Curve, EkTemplate, Public, PublicKey, attestation_key};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PublicKeyData, SignatureAlgorithm,
};

struct EccKey(Vec<u8>);

impl PublicKeyData for EccKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// As on Google's machines: the template and the certificate in NV, and nothing in it about its purpose.
fn lay_out(swtpm: &Swtpm, authority: &CertifiedIssuer<'static, KeyPair>) -> Option<Public> {
    let key = {
        let mut tpm = swtpm.connect().unwrap();
        tpm.create_primary(Hierarchy::Endorsement, &attestation_key(), None).unwrap().public().clone()
    };
    let PublicKey::Ecc { point, .. } = &key.key else { panic!("an ECC key") };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::ExplicitNoCa;
    let certificate = params.signed_by(&EccKey(point.uncompressed(Curve::P256).unwrap()), authority).unwrap();
    swtpm.put_nv(0x01c1_0003, &attestation_key().marshal())?;
    swtpm.put_nv(0x01c1_0002, certificate.der())?;
    Some(key)
}

#[test]
fn a_machine_is_known_by_the_attestation_key_that_its_cloud_certified() {
    let Some(swtpm) = Swtpm::start() else { return };
    let cloud = authority("a cloud");
    let Some(key) = lay_out(&swtpm, &cloud) else { return };
    let source = AttestationKeySource::GoogleEcc;
    let mut attester = AttestingTpm::with_key_of(swtpm.connect().unwrap(), EkTemplate::P256L2, source).unwrap();
    attester.extend_event(11, b"the image of this test").unwrap();
    let operator = Operator::new();
    let node = FakeNode::with_tpm(Tpm::Real(Arc::new(Mutex::new(attester))), &operator.init_secret());
    std::fs::write(operator.path("cloud.pem"), cloud.pem()).unwrap();
    std::fs::write(operator.path("other.pem"), authority("another").pem()).unwrap();
    let address = node.address();
    let record = ["record", &address, "--name", "demo", "--version", "1.0.0", "--ak-root"];
    let to = |name: &'static str| [&record[..], &[name, "--out", "x.json", "--policy-out", "y.json"]].concat();
    let refused = operator.run(&[&to("cloud.pem")[..], &["--output", "json"]].concat());
    assert!(refused.out.contains("ak-certificate-not-for-ak"), "a purpose is demanded by default: {refused:?}");
    let if_there = ["--ak-purpose", "if-there"];
    let refused = operator.run(&[&to("other.pem")[..], &if_there, &["--output", "json"]].concat());
    assert!(refused.out.contains("ak-certificate-untrusted"), "{refused:?}");
    let demo = ["cloud.pem", "--out", "demo.json", "--policy-out", "policy.json"];
    operator.run(&[&record[..], &demo, &if_there].concat()).succeeded();

    let digest = hex::encode(ring::digest::digest(&ring::digest::SHA256, &key.marshal()));
    let verified = operator.verify(&node, &["--ek", &digest]).succeeded();
    assert!(verified.out.contains(&format!("{digest} (attestation key)")), "{verified:?}");
    assert!(verified.out.contains("  the certificate of its attestation key\n"), "{verified:?}");
    let json = operator.verify(&node, &["--ek", &digest, "--output", "json"]).succeeded().json();
    assert_eq!(json["identity"], serde_json::json!({"key": "attestation-key", "sha256": digest}));
    let checked = operator.run(&["policy", "check", "--policy", "policy.json", "--reference", "demo.json"]).succeeded();
    assert!(checked.out.contains("TPMs whose attestation key is certified by 1 authority"), "{checked:?}");
}
