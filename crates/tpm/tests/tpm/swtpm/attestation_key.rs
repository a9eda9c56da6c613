//! Attestation keys that a cloud put into the TPM, laid out by `tpm2-tools` as Google and Azure do.

use crate::swtpm::endorsement::{certificate, made};
use crate::swtpm::support::{assert_empty, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestationKeySource, AttestingTpm, TpmCode, TpmError};
use latchkey_tpm::wire::{
    Attest, Attributes, EkTemplate, HashAlg, KeyScheme, PcrSelection, Public, PublicKey, Signature, WireError,
    attestation_key,
};

fn asked(swtpm: &Swtpm, source: AttestationKeySource) -> Result<AttestingTpm, TpmError> {
    AttestingTpm::with_key_of(witnessed(swtpm), EkTemplate::P384H3, source)
}

fn refusal(swtpm: &Swtpm, source: AttestationKeySource) -> (TpmCode, String) {
    let error = asked(swtpm, source).expect_err("refused");
    assert_empty(swtpm);
    (error.code(), error.to_string())
}

/// A template as Google's: with a unique field of zeros in full length, which is no key.
fn template(rsa: bool) -> Public {
    let own = attestation_key();
    let mut public = if rsa {
        let key = PublicKey::Rsa { bits: 2048, exponent: 0, modulus: vec![0; 256] };
        Public { scheme: KeyScheme::RsaSsa(HashAlg::Sha256), key, ..own }
    } else {
        own
    };
    if let PublicKey::Ecc { point, .. } = &mut public.key {
        (point.x, point.y) = (vec![0; 32], vec![0; 32]);
    }
    public
}

fn assert_quotes(attester: &mut AttestingTpm) {
    let quote = attester.quote(&PcrSelection::new([4, 15]).expect("selection"), &[7; 32]).expect("quote");
    let signature = Signature::parse(&quote.signature).expect("signature");
    attester.ak_public().verify(&quote.attest, &signature).expect("verifies");
    assert_eq!(Attest::parse(&quote.attest).expect("attestation").extra_data, [7; 32]);
}

#[test]
fn the_keys_of_google_are_made_from_templates() {
    let Some(swtpm) = Swtpm::start() else { return };
    let (ecc, rsa) = (AttestationKeySource::GoogleEcc, AttestationKeySource::GoogleRsa);
    for (source, at, template) in [(ecc, 0x01c1_0002, template(false)), (rsa, 0x01c1_0000, template(true))] {
        assert_eq!(
            refusal(&swtpm, source),
            (TpmCode::AttestationKeyMissing, format!("no attestation key of a cloud: no template at {:#010x}", at + 1))
        );
        // In an index that is larger than the template.
        assert_eq!(Public::parse_template(&[template.marshal(), vec![0, 1]].concat()), Err(WireError::Trailing(2)));
        let Some(()) = swtpm.put_nv(at + 1, &[template.marshal(), vec![0; 40]].concat()) else { return };
        let (code, said) = refusal(&swtpm, source);
        assert_eq!(
            (code, said.ends_with(&format!("no readable certificate at {at:#010x}"))),
            (TpmCode::AttestationKeyMissing, true)
        );
        let key = made(&swtpm, &template);
        let (der, stored) = certificate(&key, 40);
        let Some(()) = swtpm.put_nv(at, &stored) else { return };
        let mut attester = asked(&swtpm, source).expect("attester");
        assert_eq!((attester.ak_public(), attester.ak_certificate()), (&key, Some(der.as_slice())));
        assert_quotes(&mut attester);
        drop(attester);
        assert_empty(&swtpm);
    }
}

/// The TPM's other keys are not shown in their place: the certificate must be about the key, and the key one that signs nothing but
/// what the TPM made.
#[test]
fn a_key_of_another_kind_or_with_the_certificate_of_another_is_refused() {
    let Some(swtpm) = Swtpm::start() else { return };
    let another = made(&swtpm, &attestation_key());
    let (_, stored) = certificate(&another, 0);
    let Some(()) = swtpm.put_nv(0x01c1_0003, &template(false).marshal()) else { return };
    let Some(()) = swtpm.put_nv(0x01c1_0002, &stored) else { return };
    let (code, said) = refusal(&swtpm, AttestationKeySource::GoogleEcc);
    assert!(code == TpmCode::AttestationKeyUnfit && said.contains("about another key"), "{said}");
    let mut signs_anything = template(true);
    signs_anything.attributes = Attributes::FIXED_TPM
        | Attributes::FIXED_PARENT
        | Attributes::SENSITIVE_DATA_ORIGIN
        | Attributes::USER_WITH_AUTH
        | Attributes::SIGN;
    let (_, stored) = certificate(&made(&swtpm, &signs_anything), 0);
    let Some(()) = swtpm.put_nv(0x01c1_0001, &signs_anything.marshal()) else { return };
    let Some(()) = swtpm.put_nv(0x01c1_0000, &stored) else { return };
    let (code, said) = refusal(&swtpm, AttestationKeySource::GoogleRsa);
    assert!(code == TpmCode::AttestationKeyUnfit && said.contains("no restricted signing key"), "{said}");
}

/// The index has a password that nobody in the machine knows, and the owner may read it.
#[test]
fn the_key_of_azure_is_persistent_and_its_certificate_is_read_as_the_owner() {
    let Some(swtpm) = Swtpm::start() else { return };
    let (code, said) = refusal(&swtpm, AttestationKeySource::Azure);
    assert_eq!(
        (code, said.contains("no readable certificate at 0x01c101d0")),
        (TpmCode::AttestationKeyMissing, true),
        "{said}"
    );
    // As `tpm2_createprimary` makes it, with an empty unique field.
    let key = PublicKey::Rsa { bits: 2048, exponent: 0, modulus: Vec::new() };
    let key = made(&swtpm, &Public { key, ..template(true) });
    let (der, stored) = certificate(&key, 900);
    let size = stored.len().to_string();
    let attributes = "platformcreate|ppwrite|authread|authwrite|ownerread|no_da";
    let define = ["0x01c101d0", "-C", "p", "-s", &size, "-a", attributes, "-p", "hex:0102030405060708"];
    let Some(_) = swtpm.tool("tpm2_nvdefine", &define) else { return };
    std::fs::write(swtpm.directory().join("content"), &stored).expect("written");
    let Some(_) = swtpm.tool("tpm2_nvwrite", &["0x01c101d0", "-C", "p", "-i", "content"]) else { return };
    let (code, said) = refusal(&swtpm, AttestationKeySource::Azure);
    assert_eq!((code, said.contains("no key at 0x81000003")), (TpmCode::AttestationKeyMissing, true), "{said}");
    let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign";
    let create = ["-C", "e", "-G", "rsa2048:rsassa-sha256:null", "-a", attributes, "-c", "ak.ctx"];
    let Some(_) = swtpm.tool("tpm2_createprimary", &create) else { return };
    let Some(_) = swtpm.tool("tpm2_evictcontrol", &["-C", "o", "-c", "ak.ctx", "0x81000003"]) else { return };
    let Some(_) = swtpm.tool("tpm2_flushcontext", &["-t"]) else { return };
    let mut attester = asked(&swtpm, AttestationKeySource::Azure).expect("attester");
    assert_eq!((attester.ak_public(), attester.ak_certificate()), (&key, Some(der.as_slice())));
    assert_quotes(&mut attester);
    assert_eq!(attester.azure_hcl_report().expect("read"), None);
    drop(attester);
    assert_empty(&swtpm);
    // The paravisor's report is longer than one chunk; the certificate is not asked for.
    let report: Vec<u8> = (0..2048).map(|at| u8::try_from(at % 251).expect("small")).collect();
    let Some(()) = swtpm.put_nv(0x0140_0001, &report) else { return };
    let mut attester = asked(&swtpm, AttestationKeySource::AzureHcl).expect("attester");
    assert_eq!((attester.ak_public(), attester.ak_certificate()), (&key, None));
    assert_eq!(attester.azure_hcl_report().expect("read"), Some(report));
    assert_quotes(&mut attester);
    drop(attester);
    assert_empty(&swtpm);
}
