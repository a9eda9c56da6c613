//! Templates, policies and names against published and recorded values.

use latchkey_tpm::wire::{
    Attributes, Curve, EccPoint, EkTemplate, HashAlg, KeyScheme, Public, PublicKey, Signature, Symmetric,
    attestation_key, kdf_a, kdf_e, policy_a, policy_b, salt_key,
};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// The P-384 endorsement key of a swtpm, as `tpm2_readpublic` printed it.
fn recorded() -> Public {
    let mut public = EkTemplate::P384H3.public();
    let x = hex("858890b88def578c42ebf35f5a8aa93eef016ab180d1a1ddc4820bd7acda70e9d17a7ea8489fc5e56343be4f693ef0cf");
    let y = hex("400bed6333918524d322ab6cd0f429fb6edbd775256fe5cd427d60ae1d54be8c22b992e76ca19f5d7e89761877ab2f19");
    public.key = PublicKey::Ecc { curve: Curve::P384, point: EccPoint { x, y } };
    public
}

/// A key of the attestation-key template.
fn attestation() -> Public {
    let mut public = attestation_key();
    public.key = PublicKey::Ecc { curve: Curve::P256, point: EccPoint { x: vec![1; 32], y: vec![2; 32] } };
    public
}

#[test]
fn policies_are_those_of_the_profile() {
    assert_eq!(policy_a(HashAlg::Sha256), hex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa"));
    assert_eq!(policy_b(HashAlg::Sha256), hex("ca3d0a99a2b93906f7a3342414efcfb3a385d44cd1fd459089d19b5071c0b7a0"));
    let b384 = "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12";
    assert_eq!(policy_b(HashAlg::Sha384), hex(b384));
    let b512 = "b8221ca69e8550a4914de3faa6a18c072cc01208073a928d5d66d59ef79e49a4\
                29c41a6b269571d57edb25fbdb1838425608b413cd616a5f6db5b6071af99bea";
    assert_eq!(policy_b(HashAlg::Sha512), hex(b512));
}

#[test]
fn templates_have_the_attributes_of_the_profile() {
    for template in EkTemplate::ALL {
        let expected = if template.is_high_range() { 0x0003_00f2 } else { 0x0003_00b2 };
        assert_eq!(template.public().attributes.bits(), expected, "{template:?}");
        assert_eq!(template.public().endorsement_template(), Some(template));
    }
    assert_eq!(attestation_key().attributes.bits(), 0x0005_0472);
}

#[test]
fn each_template_has_the_index_the_name_and_the_hash_of_the_profile() {
    let profile = [
        (0x01c0_0002, "rsa-2048", HashAlg::Sha256, 128),
        (0x01c0_000a, "ecc-p256", HashAlg::Sha256, 128),
        (0x01c0_0012, "rsa-2048-high", HashAlg::Sha256, 128),
        (0x01c0_0014, "ecc-p256-high", HashAlg::Sha256, 128),
        (0x01c0_0016, "ecc-p384", HashAlg::Sha384, 256),
        (0x01c0_0018, "ecc-p521", HashAlg::Sha512, 256),
        (0x01c0_001c, "rsa-3072", HashAlg::Sha384, 256),
        (0x01c0_001e, "rsa-4096", HashAlg::Sha384, 256),
    ];
    let ours = EkTemplate::ALL.map(|template| {
        let public = template.public();
        (template.certificate_index(), template.name(), public.name_alg, public.symmetric.bits())
    });
    assert_eq!(ours, profile);
}

#[test]
fn the_name_is_what_tpm2_tools_say() {
    let name = "000c3e07fab8e2e690998074ffd41bd8c2d0743376b027e9681f9fd36cd2f6f3dddabda806ac5d3fc2e1426c8e71af6148db";
    assert_eq!(recorded().name(), hex(name));
    assert!(recorded().is_endorsement_key());
}

#[test]
fn a_key_that_can_leave_or_sign_anything_is_no_attestation_key() {
    assert!(attestation().is_restricted_signing_key());
    let with = |bits: u32| Public { attributes: Attributes::from_bits(bits).expect("bits"), ..attestation() };
    let needed = [
        Attributes::RESTRICTED,
        Attributes::SIGN,
        Attributes::FIXED_TPM,
        Attributes::FIXED_PARENT,
        Attributes::SENSITIVE_DATA_ORIGIN,
    ];
    for attribute in needed {
        let without = with(attestation().attributes.bits() & !attribute.bits());
        assert!(!without.is_restricted_signing_key(), "{attribute:?}");
    }
    for attribute in [Attributes::DECRYPT, Attributes::X509_SIGN] {
        assert!(!with((attestation().attributes | attribute).bits()).is_restricted_signing_key(), "{attribute:?}");
    }
    assert!(!Public { scheme: KeyScheme::Null, ..attestation() }.is_restricted_signing_key());
    assert!(!Public { symmetric: Symmetric::Aes128Cfb, ..attestation() }.is_restricted_signing_key());
}

#[test]
fn a_key_that_differs_from_every_template_is_no_endorsement_key() {
    assert!(!attestation().is_endorsement_key());
    assert!(!salt_key().is_endorsement_key());
    let no_policy = Public { auth_policy: Vec::new(), ..recorded() };
    assert!(!no_policy.is_endorsement_key(), "anybody who may use it could activate");
    assert!(!Public { name_alg: HashAlg::Sha256, ..recorded() }.is_endorsement_key(), "another name");
    let movable = Attributes::from_bits(recorded().attributes.bits() & !Attributes::FIXED_TPM.bits()).expect("bits");
    assert!(!Public { attributes: movable, ..recorded() }.is_endorsement_key());
}

#[test]
fn reserved_attributes_are_refused() {
    assert!(Attributes::from_bits(1).is_err());
    assert!(Attributes::from_bits(1 << 31).is_err());
}

#[test]
fn a_point_off_the_curve_verifies_nothing() {
    let signature = Signature::Ecdsa { hash: HashAlg::Sha256, r: vec![1; 32], s: vec![1; 32] };
    assert!(attestation().verify(b"message", &signature).is_err());
    // A scalar of zero and a point of zeros: the usual way to fool a verifier that does not check.
    let mut zero = attestation();
    zero.key = PublicKey::Ecc { curve: Curve::P256, point: EccPoint { x: vec![0; 32], y: vec![0; 32] } };
    let signature = Signature::Ecdsa { hash: HashAlg::Sha256, r: vec![0; 32], s: vec![0; 32] };
    assert!(zero.verify(b"message", &signature).is_err());
}

#[test]
fn derived_keys_have_the_length_asked_for_and_depend_on_it() {
    for (bits, len) in [(128u16, 16), (256, 32), (384, 48), (512, 64)] {
        assert_eq!(kdf_a(HashAlg::Sha256, b"key", "STORAGE", b"u", b"v", bits).len(), len);
        assert_eq!(kdf_e(HashAlg::Sha256, b"z", "IDENTITY", b"u", b"v", bits).len(), len);
    }
    // KDFa counts the length in, KDFe does not (part 1, section 11.4.10).
    let short = kdf_a(HashAlg::Sha256, b"key", "STORAGE", b"u", b"v", 128);
    assert!(!kdf_a(HashAlg::Sha256, b"key", "STORAGE", b"u", b"v", 256).starts_with(&short));
    let first = HashAlg::Sha256.digest(&[&[0, 0, 0, 1], b"z", b"IDENTITY\0", b"u", b"v"]);
    assert!(kdf_e(HashAlg::Sha256, b"z", "IDENTITY", b"u", b"v", 384).starts_with(&first));
}

#[test]
fn a_policy_is_as_long_as_a_digest_or_absent() {
    let cut = Public { auth_policy: vec![1; 5], ..attestation() };
    assert!(Public::parse(&cut.marshal()).is_err());
    let whole = Public { auth_policy: vec![1; 32], ..attestation() };
    assert_eq!(Public::parse(&whole.marshal()), Ok(whole));
}
