//! Which endorsement key and certificate are taken, on TPMs as manufacturers ship them. `tpm2-tools` lay out NV.

use crate::swtpm::support::{assert_empty, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::{AttestingTpm, Hierarchy, ResponseReason, TpmCode, TpmError};
use latchkey_tpm::wire::{EkTemplate, Public, PublicKey};
use std::fs;

/// Defines the NV index and writes `content` into it, from where `attributes` allow to read.
fn define(swtpm: &Swtpm, index: u32, content: &[u8], attributes: &str) -> Option<()> {
    let (index, size) = (format!("{index:#x}"), content.len().to_string());
    swtpm.tool("tpm2_nvdefine", &[&index, "-C", "p", "-s", &size, "-a", attributes])?;
    fs::write(swtpm.directory().join("content"), content).expect("written");
    swtpm.tool("tpm2_nvwrite", &[&index, "-C", "p", "-i", "content"]).map(drop)
}

fn undefine(swtpm: &Swtpm, template: EkTemplate) -> Option<()> {
    let index = format!("{:#x}", template.certificate_index());
    swtpm.tool("tpm2_nvundefine", &[&index, "-C", "p"]).map(drop)
}

const READABLE: &str = "platformcreate|ppwrite|ppread|ownerread|authread|no_da";

/// Something of a certificate's form that holds `public`, then `padding` bytes that belong to no certificate.
pub(crate) fn certificate(public: &Public, padding: usize) -> (Vec<u8>, Vec<u8>) {
    let key = match &public.key {
        PublicKey::Rsa { modulus, .. } => modulus.clone(),
        PublicKey::Ecc { curve, point } => point.uncompressed(*curve).expect("point"),
    };
    let body = [&[0x5a; 200][..], &key, &[0xa5; 100]].concat();
    let len = u16::try_from(body.len()).expect("short").to_be_bytes();
    let certificate = [&[0x30, 0x82][..], &len, &body].concat();
    let stored = [&certificate[..], &vec![0xff; padding]].concat();
    (certificate, stored)
}

/// The key this TPM makes of `template`.
pub(crate) fn made(swtpm: &Swtpm, template: &Public) -> Public {
    let mut tpm = witnessed(swtpm);
    tpm.create_primary(Hierarchy::Endorsement, template, None).expect("created").public().clone()
}

fn shown(swtpm: &Swtpm, template: EkTemplate) -> AttestingTpm {
    AttestingTpm::new(witnessed(swtpm), template).expect("attester")
}

/// Attack 25: whoever hides or deletes a certificate gets the same key, without its certificate, and no other one that
/// still has its own.
#[test]
fn a_deleted_certificate_index_changes_no_endorsement_key() {
    let Some(swtpm) = Swtpm::start() else { return };
    let (before, certified) = {
        let attester = shown(&swtpm, EkTemplate::P384H3);
        (attester.ek_public().clone(), attester.ek_certificate().is_some())
    };
    assert!(certified, "what swtpm_setup certifies");
    let Some(()) = undefine(&swtpm, EkTemplate::P384H3) else { return };
    let attester = shown(&swtpm, EkTemplate::P384H3);
    assert_eq!((attester.ek_public(), attester.ek_certificate()), (&before, None));
    drop(attester);
    assert!(shown(&swtpm, EkTemplate::RsaL1).ek_certificate().is_some(), "which nobody asked for");
    assert_empty(&swtpm);
}

#[test]
fn a_key_is_shown_with_its_certificate_or_without_one() {
    let Some(swtpm) = Swtpm::start() else { return };
    let p256 = made(&swtpm, &EkTemplate::P256L2.public());
    let attester = shown(&swtpm, EkTemplate::P256L2);
    assert_eq!((attester.ek_public(), attester.ek_certificate()), (&p256, None));
    drop(attester);
    let (der, stored) = certificate(&p256, 40);
    let Some(()) = define(&swtpm, EkTemplate::P256L2.certificate_index(), &stored, READABLE) else { return };
    let attester = shown(&swtpm, EkTemplate::P256L2);
    assert_eq!(attester.ek_public(), &p256);
    assert_eq!(attester.ek_certificate(), Some(der.as_slice()), "without the index's padding");
    drop(attester);
    assert_empty(&swtpm);
}

#[test]
fn the_certified_key_is_found_whatever_it_was_made_from() {
    let Some(swtpm) = Swtpm::start() else { return };
    let nonce = [7; 20];
    let with_unique = |x: Vec<u8>| {
        let mut template = EkTemplate::P256L2.public();
        if let PublicKey::Ecc { point, .. } = &mut template.key {
            point.y = vec![0; x.len()];
            point.x = x;
        }
        made(&swtpm, &template)
    };
    let mut padded = nonce.to_vec();
    padded.resize(32, 0);
    let (of_nonce, of_nothing) = (with_unique(padded), with_unique(Vec::new()));
    let index = EkTemplate::P256L2.certificate_index();
    let Some(()) = define(&swtpm, index, &certificate(&of_nothing, 0).1, READABLE) else { return };
    assert_eq!(shown(&swtpm, EkTemplate::P256L2).ek_public(), &of_nothing);

    undefine(&swtpm, EkTemplate::P256L2).expect("installed");
    define(&swtpm, index, &certificate(&of_nonce, 0).1, READABLE).expect("installed");
    define(&swtpm, index + 1, &nonce, READABLE).expect("installed");
    let attester = shown(&swtpm, EkTemplate::P256L2);
    assert_eq!(attester.ek_public(), &of_nonce);
    assert!(attester.ek_public().is_endorsement_key());
}

#[test]
fn a_certificate_of_another_key_or_of_no_form_is_passed_over() {
    let Some(swtpm) = Swtpm::start() else { return };
    let index = EkTemplate::P256L2.certificate_index();
    let stranger = made(&swtpm, &EkTemplate::P256H2.public());
    for junk in [certificate(&stranger, 0).1, vec![0xff; 300], vec![0x30, 0x82, 0xff, 0xff, 0]] {
        let Some(()) = define(&swtpm, index, &junk, READABLE) else { return };
        let attester = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P256L2).expect("attester");
        assert_eq!(attester.ek_certificate(), None);
        drop(attester);
        undefine(&swtpm, EkTemplate::P256L2).expect("installed");
    }
}

#[test]
fn issuers_certificates_are_taken_apart_and_bounded() {
    let Some(swtpm) = Swtpm::start() else { return };
    let one = certificate(&made(&swtpm, &EkTemplate::P256H2.public()), 0).0;
    // Certificates run on over the end of an index (profile, section 2.2.1.5.1).
    let six = one.repeat(6);
    let (head, tail) = six.split_at(1000);
    let Some(()) = define(&swtpm, 0x01c0_0100, head, READABLE) else { return };
    define(&swtpm, 0x01c0_0101, tail, READABLE).expect("installed");
    assert_eq!(shown(&swtpm, EkTemplate::P384H3).ek_intermediates(), vec![one; 4]);
}

#[test]
fn an_index_is_read_as_its_owner_allows() {
    let Some(swtpm) = Swtpm::start() else { return };
    let content = vec![0x42; 1100];
    let Some(()) = define(&swtpm, 0x0180_0001, &content, "platformcreate|ppwrite|ownerread") else { return };
    define(&swtpm, 0x0180_0002, &content, "platformcreate|ppwrite|ppread").expect("installed");
    swtpm.tool("tpm2_nvdefine", &["0x01800003", "-C", "p", "-s", "8", "-a", READABLE]).expect("installed");
    let mut tpm = witnessed(&swtpm);
    assert_eq!(tpm.nv_read(0x0180_0001).expect("read"), Some(content));
    assert_eq!(tpm.nv_read(0x0180_0002).expect("the platform's own"), None);
    assert_eq!(tpm.nv_read(0x0180_0003).expect("never written"), None);
}

/// The password of an index may count toward the TPM's lockout: it is not tried where the owner may read.
#[test]
fn an_index_with_a_password_is_read_as_the_owner_and_as_itself_where_the_owner_has_one() {
    let Some(swtpm) = Swtpm::start() else { return };
    let (content, attributes) = (vec![0x42; 64], "platformcreate|ppwrite|ownerread|authread");
    let define = ["0x01800001", "-C", "p", "-s", "64", "-a", attributes, "-p", "secret"];
    let Some(_) = swtpm.tool("tpm2_nvdefine", &define) else { return };
    std::fs::write(swtpm.directory().join("content"), &content).expect("written");
    swtpm.tool("tpm2_nvwrite", &["0x01800001", "-C", "p", "-i", "content"]).expect("installed");
    let mut tpm = witnessed(&swtpm);
    assert_eq!(tpm.nv_read(0x0180_0001).expect("read"), Some(content.clone()));
    drop(tpm);
    let variable = swtpm.tool("tpm2_getcap", &["properties-variable"]).expect("installed");
    assert!(variable.contains("TPM2_PT_LOCKOUT_COUNTER: 0x0\n"), "{variable}");

    swtpm.put_nv(0x0180_0002, &content).expect("installed");
    swtpm.tool("tpm2_changeauth", &["-c", "o", "secret"]).expect("installed");
    assert_eq!(witnessed(&swtpm).nv_read(0x0180_0002).expect("read"), Some(content));
}

#[test]
fn a_password_on_the_endorsement_hierarchy_is_named() {
    let Some(swtpm) = Swtpm::start() else { return };
    let Some(_) = swtpm.tool("tpm2_changeauth", &["-c", "e", "secret"]) else { return };
    let refused = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect_err("password");
    assert!(
        matches!(&refused, TpmError::Refused { code, .. } if code.reason() == ResponseReason::AuthFail),
        "{refused}"
    );
    assert!(refused.to_string().contains("has a password"));
    assert_empty(&swtpm);
}

/// As `swtpm_setup --pcr-banks sha384` makes them, and some firmware leaves them. What the reason's remedy names mends it.
#[test]
fn a_tpm_without_a_sha256_bank_is_named_and_can_be_mended() {
    let Some(mut swtpm) = Swtpm::start_with_banks("without-sha256", "sha384") else { return };
    let refused = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect_err("no bank");
    assert!(matches!(&refused, TpmError::NoSha256Bank { banks } if *banks == [0x000c]), "{refused}");
    assert_eq!(refused.code(), TpmCode::NoSha256Bank);
    assert!(refused.to_string().ends_with("its banks are sha384"), "{refused}");
    assert!(refused.code().remedy().contains("tpm2_pcrallocate sha256:all"), "{}", refused.code().remedy());
    assert_empty(&swtpm);

    let Some(_) = swtpm.tool("tpm2_pcrallocate", &["sha256:all"]) else { return };
    swtpm.restart().expect("restarts");
    let mut attester = shown(&swtpm, EkTemplate::P384H3);
    attester.extend_event(15, b"lock").expect("extended");
}

#[test]
fn a_tpm_with_half_a_sha256_bank_is_refused_like_one_without() {
    let Some(mut swtpm) = Swtpm::start() else { return };
    let Some(_) = swtpm.tool("tpm2_pcrallocate", &["sha1:all+sha256:0,1,2,3,4,5,6,7"]) else { return };
    swtpm.restart().expect("restarts");
    let refused = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect_err("half a bank");
    assert!(matches!(&refused, TpmError::NoSha256Bank { banks } if banks.contains(&0x000b)), "{refused}");
}
