//! The whole way with the attestation keys of clouds, on real TPM code: swtpm, laid out by tpm2-tools as Google and Azure do, and
//! certificates of an authority made here. Skipped with a line that says so where swtpm or tpm2-tools are not installed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::certificates::{Authority, authority, issue_for, key_params};
use crate::support::{BINDING, NOW, image_json, policy, policy_json, references};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{
    Appraisal, AttesterIdentity, EkTrust, LockExpectation, PcrValues, Policy, TpmEvidence, VerifiedEvidence,
};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestationKeySource, AttestingTpm, Hierarchy};
use latchkey_tpm::wire::{EkTemplate, HashAlg, KeyScheme, Public, PublicKey, attestation_key};
use rcgen::ExtendedKeyUsagePurpose;
use ring::rand::SystemRandom;
use serde_json::json;

fn rsa(modulus: usize) -> Public {
    let key = PublicKey::Rsa { bits: 2048, exponent: 0, modulus: vec![0; modulus] };
    Public { scheme: KeyScheme::RsaSsa(HashAlg::Sha256), key, ..attestation_key() }
}

/// Puts what the cloud does into the TPM; `None` without tpm2-tools.
fn lay_out(swtpm: &Swtpm, source: AttestationKeySource, root: &Authority, purposes: &[&[u64]]) -> Option<()> {
    let template = match source {
        AttestationKeySource::GoogleRsa => rsa(256),
        AttestationKeySource::Azure => rsa(0),
        _ => attestation_key(),
    };
    let key = {
        let mut tpm = swtpm.connect().unwrap();
        tpm.create_primary(Hierarchy::Endorsement, &template, None).unwrap().public().clone()
    };
    let purposes: Vec<_> = purposes.iter().map(|oid| ExtendedKeyUsagePurpose::Other(oid.to_vec())).collect();
    let certificate = issue_for(&key, root, key_params(&purposes));
    match source {
        AttestationKeySource::GoogleEcc => {
            swtpm.put_nv(0x01c1_0003, &template.marshal())?;
            swtpm.put_nv(0x01c1_0002, &certificate)
        }
        AttestationKeySource::GoogleRsa => {
            swtpm.put_nv(0x01c1_0001, &template.marshal())?;
            swtpm.put_nv(0x01c1_0000, &certificate)
        }
        AttestationKeySource::Azure => {
            let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign";
            let create = ["-C", "e", "-G", "rsa2048:rsassa-sha256:null", "-a", attributes, "-c", "ak.ctx"];
            swtpm.tool("tpm2_createprimary", &create)?;
            swtpm.tool("tpm2_evictcontrol", &["-C", "o", "-c", "ak.ctx", "0x81000003"])?;
            swtpm.tool("tpm2_flushcontext", &["-t"])?;
            swtpm.put_nv(0x01c1_01d0, &certificate)
        }
        AttestationKeySource::AzureHcl | AttestationKeySource::Own => unreachable!("no certificate's"),
    }
}

fn policy_of(root: &Authority, purpose: &str, algorithms: &[&str]) -> Policy {
    let rule = json!({"kind": "ak-chain", "roots": [root.pem()], "intermediates": [], "purpose": purpose});
    let mut json = policy_json(rule);
    json["ak_algorithms"] = json!(algorithms);
    policy(&json)
}

fn verify(policy: &Policy, attester: &mut AttestingTpm) -> Result<VerifiedEvidence, Refusal> {
    let (ek, ak) = (attester.ek_public().marshal(), attester.ak_public().marshal());
    let identity = AttesterIdentity::new(ek, None, Vec::new(), ak).unwrap();
    let identity = identity.with_ak_certificate(attester.ak_certificate().unwrap().to_vec()).unwrap();
    let (challenge, pending) = Appraisal::begin(policy, &identity, NOW, &SystemRandom::new())?;
    let secret = attester.activate(challenge.credential()).unwrap();
    let quote = attester.quote(&challenge.pcrs().selection().unwrap(), &BINDING).unwrap();
    let pcrs = PcrValues::new(quote.pcrs).unwrap();
    let evidence = TpmEvidence::new(quote.attest, quote.signature, pcrs, secret, None).unwrap();
    pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)
}

const AK_PURPOSE: &[u64] = &[2, 23, 133, 8, 3];
/// Microsoft's, which Azure's certificates have beside it.
const ANOTHER_PURPOSE: &[u64] = &[1, 3, 6, 1, 4, 1, 311, 10, 3, 12];

#[test]
fn keys_of_google_and_azure_activate_quote_and_are_admitted() {
    let none: &[&[u64]] = &[];
    let clouds = [
        (AttestationKeySource::GoogleEcc, none, "if-there", "ecdsa-p256-sha256"),
        (AttestationKeySource::GoogleRsa, none, "if-there", "rsassa-2048-sha256"),
        (AttestationKeySource::Azure, &[AK_PURPOSE, ANOTHER_PURPOSE], "demanded", "rsassa-2048-sha256"),
    ];
    for (source, purposes, purpose, algorithm) in clouds {
        let (Some(swtpm), root) = (Swtpm::start(), authority("a cloud's")) else { return };
        let Some(()) = lay_out(&swtpm, source, &root, purposes) else { return };
        let mut attester = AttestingTpm::with_key_of(swtpm.connect().unwrap(), EkTemplate::P256L2, source).unwrap();
        let policy = policy_of(&root, purpose, &[algorithm]);
        let verified = verify(&policy, &mut attester).unwrap();
        assert!(matches!(verified.trust(), EkTrust::AkChain { .. }), "{source:?}");
        let digest = ring::digest::digest(&ring::digest::SHA256, &attester.ak_public().marshal());
        assert_eq!(verified.ek_digest().as_bytes(), digest.as_ref(), "{source:?}");
        // Registers are zero after a reset, and image 0 has zeros.
        let references = references(&policy, &[image_json(0)]);
        let admission = policy.validate(&verified, &references, LockExpectation::Unlocked, NOW).unwrap();
        assert_eq!(admission.ek_digest(), verified.ek_digest());
        let wrong = policy_of(&authority("another's"), purpose, &[algorithm]);
        assert_eq!(verify(&wrong, &mut attester).unwrap_err().code(), ReasonCode::AkCertificateUntrusted);
        let other_algorithm = if algorithm.starts_with("rsa") { "ecdsa-p256-sha256" } else { "rsassa-2048-sha256" };
        let refused = verify(&policy_of(&root, purpose, &[other_algorithm]), &mut attester).unwrap_err();
        assert_eq!(refused.code(), ReasonCode::AkAlgorithmRefused);
    }
}
