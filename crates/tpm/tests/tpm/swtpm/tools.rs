//! tpm2-tools as a second opinion.

use crate::swtpm::support::{attester, implemented, witnessed};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{Attest, EkTemplate, PcrSelection, Public, PublicKey, Signature};
use std::fs;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A public area as the tools read it: `TPM2B_PUBLIC`.
fn write_public(swtpm: &Swtpm, file: &str, public: &Public) {
    let bytes = public.marshal();
    let len = u16::try_from(bytes.len()).expect("short");
    fs::write(swtpm.directory().join(file), [&len.to_be_bytes()[..], &bytes].concat()).expect("written");
}

#[test]
fn names_are_those_tpm2_readpublic_prints() {
    let Some(swtpm) = Swtpm::start() else { return };
    for handle in [0x8101_0001u32, 0x8101_0016] {
        let name = witnessed(&swtpm).read_public(handle, None).expect("read").name().to_vec();
        let Some(printed) = swtpm.tool("tpm2_readpublic", &["-c", &format!("{handle:#x}")]) else { return };
        assert!(printed.contains(&format!("name: {}\n", hex(&name))), "{printed}");
    }
}

#[test]
fn certificates_are_those_tpm2_nvread_reads() {
    let Some(swtpm) = Swtpm::start() else { return };
    for template in [EkTemplate::RsaL1, EkTemplate::P384H3] {
        let certificate = attester(witnessed(&swtpm), template).ek_certificate().expect("certified").to_vec();
        let index = format!("{:#x}", template.certificate_index());
        let Some(_) = swtpm.tool("tpm2_nvread", &[&index, "-o", "certificate"]) else { return };
        assert_eq!(fs::read(swtpm.directory().join("certificate")).expect("read"), certificate);
    }
}

#[test]
fn register_values_are_those_tpm2_pcrread_prints() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(witnessed(&swtpm), EkTemplate::P384H3);
    attester.extend_event(15, b"lock").expect("extended");
    let value = attester.read_pcr(15).expect("read");
    drop(attester);
    let Some(printed) = swtpm.tool("tpm2_pcrread", &["sha256:15"]) else { return };
    assert!(printed.contains(&format!("15: 0x{}", hex(&value).to_uppercase())), "{printed}");
}

#[test]
fn tpm2_checkquote_accepts_our_quote_and_only_with_our_nonce() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = attester(witnessed(&swtpm), EkTemplate::P384H3);
    let quote = attester.quote(&PcrSelection::new([0, 4, 15]).expect("selection"), &[0xab; 32]).expect("quote");
    write_public(&swtpm, "ak.pub", attester.ak_public());
    drop(attester);
    fs::write(swtpm.directory().join("quote"), &quote.attest).expect("written");
    fs::write(swtpm.directory().join("signature"), &quote.signature).expect("written");
    let values: Vec<u8> = quote.pcrs.values().flatten().copied().collect();
    fs::write(swtpm.directory().join("values"), values).expect("written");
    let files = ["-u", "ak.pub", "-m", "quote", "-s", "signature", "-f", "values", "-l", "sha256:0,4,15", "-q"];
    let nonce = hex(&[0xab; 32]);
    let Some(_) = swtpm.tool("tpm2_checkquote", &[&files[..], &[&nonce]].concat()) else { return };
    let other = std::panic::catch_unwind(|| swtpm.tool("tpm2_checkquote", &[&files[..], &["00"]].concat()));
    assert!(other.is_err(), "another nonce is refused");
    fs::write(swtpm.directory().join("values"), [0x11; 96]).expect("written");
    let other = std::panic::catch_unwind(|| swtpm.tool("tpm2_checkquote", &[&files[..], &[&nonce]].concat()));
    assert!(other.is_err(), "other values are refused");
}

#[test]
fn keys_of_the_large_templates_are_those_that_tpm2_createek_makes() {
    let Some(swtpm) = Swtpm::start() else { return };
    for (template, algorithm) in [(EkTemplate::Rsa3072H6, "rsa3072"), (EkTemplate::P521H4, "ecc521")] {
        let ours = attester(witnessed(&swtpm), template).ek_public().clone();
        let Some(_) = swtpm.tool("tpm2_createek", &["-G", algorithm, "-c", "ek.ctx", "-u", "ek.pub"]) else { return };
        swtpm.tool("tpm2_flushcontext", &["-t"]).expect("installed");
        let theirs = fs::read(swtpm.directory().join("ek.pub")).expect("read");
        assert_eq!(Public::parse(&theirs[2..]).expect("public area"), ours, "{template}");
    }
}

#[test]
fn credentials_of_tpm2_makecredential_are_activated_with_every_endorsement_key() {
    let Some(swtpm) = Swtpm::start() else { return };
    let secret = b"thirty-two bytes of some secret.";
    fs::write(swtpm.directory().join("secret"), secret).expect("written");
    for template in implemented(&swtpm) {
        let identity = attester(witnessed(&swtpm), template);
        write_public(&swtpm, "ek.pub", identity.ek_public());
        let name = hex(&identity.ak_public().name());
        drop(identity);
        let arguments = ["-T", "none", "-u", "ek.pub", "-s", "secret", "-n", &name, "-o", "credential"];
        let Some(_) = swtpm.tool("tpm2_makecredential", &arguments) else { return };
        let file = fs::read(swtpm.directory().join("credential")).expect("read");
        let credential = file.strip_prefix(b"\xba\xdc\xc0\xde\0\0\0\x01").expect("the tools' header");

        let mut again = attester(witnessed(&swtpm), template);
        assert_eq!(again.activate(credential).expect("activated").as_slice(), secret, "{template:?}");

        // Made for another attestation key's name, it is worth nothing (CVE-2021-3406).
        let (rest, last) = name.split_at(name.len() - 1);
        let changed = format!("{rest}{}", if last == "0" { "1" } else { "0" });
        drop(again);
        let arguments = ["-T", "none", "-u", "ek.pub", "-s", "secret", "-n", &changed, "-o", "credential"];
        swtpm.tool("tpm2_makecredential", &arguments).expect("installed");
        let file = fs::read(swtpm.directory().join("credential")).expect("read");
        let mut again = attester(witnessed(&swtpm), template);
        assert!(again.activate(&file[8..]).is_err(), "{template:?}");
    }
}

#[test]
fn the_certificate_is_the_keys_own_whether_persistent_or_made_anew() {
    let Some(swtpm) = Swtpm::start() else { return };
    let persistent = attester(witnessed(&swtpm), EkTemplate::P384H3).ek_public().clone();
    let Some(_) = swtpm.tool("tpm2_evictcontrol", &["-C", "o", "-c", "0x81010016"]) else { return };
    let made = AttestingTpm::new(witnessed(&swtpm), EkTemplate::P384H3).expect("attester");
    assert_eq!(made.ek_public(), &persistent);
    assert!(made.ek_certificate().is_some());
}

#[test]
fn unclean_power_cuts_never_lock_a_node_out() {
    let Some(mut swtpm) = Swtpm::start() else { return };
    let secret = b"thirty-two bytes of some secret.";
    fs::write(swtpm.directory().join("secret"), secret).expect("written");
    let identity = attester(witnessed(&swtpm), EkTemplate::P384H3);
    write_public(&swtpm, "ek.pub", identity.ek_public());
    let name = hex(&identity.ak_public().name());
    drop(identity);
    let arguments = ["-T", "none", "-u", "ek.pub", "-s", "secret", "-n", &name, "-o", "credential"];
    let Some(_) = swtpm.tool("tpm2_makecredential", &arguments) else { return };
    let credential = fs::read(swtpm.directory().join("credential")).expect("read");
    // swtpm locks after three failures, and counts every kill after use of a protected object as one.
    for cut in 0..6 {
        let mut attester = attester(witnessed(&swtpm), EkTemplate::P384H3);
        assert_eq!(attester.activate(&credential[8..]).expect("activated").as_slice(), secret, "after {cut} cuts");
        attester.extend_event(15, b"lock").expect("extended");
        swtpm.restart().expect("restarts");
    }
}

#[test]
fn an_rsa_quote_of_tpm2_quote_verifies() {
    let Some(swtpm) = Swtpm::start() else { return };
    let attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign";
    let create = ["-C", "e", "-G", "rsa2048:rsassa-sha256:null", "-a", attributes, "-c", "ak.ctx"];
    let Some(_) = swtpm.tool("tpm2_createprimary", &create) else { return };
    swtpm.tool("tpm2_readpublic", &["-c", "ak.ctx", "-o", "ak.pub"]).expect("installed");
    let quote = ["-c", "ak.ctx", "-l", "sha256:0,15", "-q", "abcd", "-m", "quote", "-s", "signature"];
    swtpm.tool("tpm2_quote", &quote).expect("installed");
    let read = |file: &str| fs::read(swtpm.directory().join(file)).expect("read");
    let public = Public::parse(&read("ak.pub")[2..]).expect("public area");
    assert!(public.is_restricted_signing_key() && matches!(public.key, PublicKey::Rsa { bits: 2048, .. }));
    let message = read("quote");
    let signature = Signature::parse(&read("signature")).expect("signature");
    assert_eq!(Attest::parse(&message).expect("quote").extra_data, [0xab, 0xcd]);
    public.verify(&message, &signature).expect("verifies");
    for at in 0..message.len() {
        let mut changed = message.clone();
        changed[at] ^= 1;
        assert!(public.verify(&changed, &signature).is_err(), "byte {at}");
    }
}
