//! Parsers on hostile bytes: they never panic, and whatever they accept they write back byte for byte, so there is one
//! encoding of each thing.

use latchkey_tpm::wire::{
    Attest, Attributes, ClockInfo, Credential, Curve, EccPoint, EkTemplate, HashAlg, KeyScheme, PcrSelection, Public,
    PublicKey, Signature, Symmetric, WireError, attestation_key,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Accepts or refuses `bytes` as each structure; what is accepted must be what was read.
fn exact(bytes: &[u8]) {
    let same = |written: Result<Vec<u8>, WireError>| {
        if let Ok(written) = written {
            assert_eq!(written, bytes);
        }
    };
    same(Public::parse(bytes).map(|it| it.marshal()));
    same(Attest::parse(bytes).map(|it| it.marshal()));
    same(Signature::parse(bytes).map(|it| it.marshal()));
    same(PcrSelection::parse(bytes).map(PcrSelection::marshal));
    same(Credential::parse(bytes).map(|it| it.marshal()));
    same(EccPoint::parse(bytes, Curve::P384).map(|it| it.marshal()));
}

fn hash() -> impl Strategy<Value = HashAlg> {
    prop_oneof![Just(HashAlg::Sha256), Just(HashAlg::Sha384), Just(HashAlg::Sha512)]
}

fn attest() -> impl Strategy<Value = Attest> {
    let clock = (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>());
    (vec(any::<u8>(), 0..=66), vec(any::<u8>(), 0..=64), clock, any::<u64>(), 1u32..1 << 24, hash(), any::<u8>())
        .prop_map(
            |(
                qualified_signer,
                extra_data,
                (clock, reset_count, restart_count, safe),
                firmware_version,
                bits,
                hash,
                fill,
            )| {
                Attest {
                    qualified_signer,
                    extra_data,
                    clock: ClockInfo { clock, reset_count, restart_count, safe },
                    firmware_version,
                    selection: PcrSelection::from_bits(bits).expect("non-empty"),
                    pcr_digest: vec![fill; hash.size()],
                }
            },
        )
}

fn public() -> impl Strategy<Value = Public> {
    let ecc = (prop_oneof![Just(Curve::P256), Just(Curve::P384)], vec(any::<u8>(), 1..=32), vec(any::<u8>(), 1..=32))
        .prop_map(|(curve, x, y)| {
            (KeyScheme::Ecdsa(HashAlg::Sha256), PublicKey::Ecc { curve, point: EccPoint { x, y } })
        });
    let rsa = (prop_oneof![Just(2048u16), Just(3072), Just(4096)], vec(any::<u8>(), 512), any::<bool>()).prop_map(
        |(bits, mut modulus, explicit)| {
            modulus.truncate(usize::from(bits / 8));
            modulus[0] |= 0x80;
            (
                KeyScheme::RsaPss(HashAlg::Sha384),
                PublicKey::Rsa { bits, exponent: if explicit { 65537 } else { 0 }, modulus },
            )
        },
    );
    let symmetric = prop_oneof![Just(Symmetric::Null), Just(Symmetric::Aes128Cfb), Just(Symmetric::Aes256Cfb)];
    (prop_oneof![ecc, rsa], hash(), any::<bool>(), symmetric, any::<bool>()).prop_map(
        |((scheme, key), name_alg, policy, symmetric, bound)| Public {
            name_alg,
            attributes: Attributes::RESTRICTED | Attributes::SIGN,
            auth_policy: if policy { vec![3; name_alg.size()] } else { Vec::new() },
            symmetric,
            scheme: if bound { scheme } else { KeyScheme::Null },
            key,
        },
    )
}

fn signature() -> impl Strategy<Value = Signature> {
    prop_oneof![
        (hash(), vec(any::<u8>(), 1..=32), vec(any::<u8>(), 1..=32)).prop_map(|(hash, r, s)| Signature::Ecdsa {
            hash,
            r,
            s
        }),
        (hash(), prop_oneof![Just(256usize), Just(384), Just(512)], any::<u8>())
            .prop_map(|(hash, len, fill)| Signature::RsaSsa { hash, signature: vec![fill; len] }),
    ]
}

fn credential() -> impl Strategy<Value = Credential> {
    (vec(any::<u8>(), 0..=64), vec(any::<u8>(), 0..=66), vec(any::<u8>(), 0..=512))
        .prop_map(|(integrity, identity, secret)| Credential { integrity, identity, secret })
}

/// One byte of a genuine structure replaced, or its end cut off or prolonged.
fn damaged(bytes: &[u8], at: usize, value: u8, len: usize) {
    let mut changed = bytes.to_vec();
    let at = at % changed.len();
    changed[at] = value;
    exact(&changed);
    changed.resize(len % (bytes.len() + 8), value);
    exact(&changed);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..800)) {
        exact(&bytes);
    }

    #[test]
    fn damaged_structures_never_panic(
        attest in attest(), public in public(), signature in signature(), credential in credential(),
        at in any::<usize>(), value in any::<u8>(), len in any::<usize>(),
    ) {
        for bytes in [attest.marshal(), public.marshal(), signature.marshal(), credential.marshal()] {
            damaged(&bytes, at, value, len);
        }
    }

    #[test]
    fn structures_survive_a_round_trip(
        attest in attest(), public in public(), signature in signature(), credential in credential(),
    ) {
        prop_assert_eq!(Attest::parse(&attest.marshal()), Ok(attest));
        prop_assert_eq!(Public::parse(&public.marshal()), Ok(public));
        prop_assert_eq!(Signature::parse(&signature.marshal()), Ok(signature));
        prop_assert_eq!(Credential::parse(&credential.marshal()), Ok(credential));
    }

    #[test]
    fn a_flipped_bit_in_a_quote_is_refused_or_seen(attest in attest()) {
        let bytes = attest.marshal();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(Attest::parse(&flipped), Ok(attest.clone()), "bit {}", bit);
        }
    }
}

#[test]
fn a_length_field_never_reaches_past_its_bound() {
    // A public area that claims 65535 bytes of policy, in a buffer that has them.
    let mut bytes = attestation_key().marshal();
    bytes[8..10].copy_from_slice(&[0xff, 0xff]);
    bytes.resize(600, 0);
    assert_eq!(Public::parse(&bytes), Err(WireError::Length { field: "auth policy", max: 32, got: 0xffff }));
    assert!(matches!(Public::parse(&vec![0; 70_000]), Err(WireError::Length { .. })));
    assert!(matches!(Attest::parse(&vec![0; 70_000]), Err(WireError::Length { .. })));
}

#[test]
fn a_template_is_not_a_key() {
    for template in EkTemplate::ALL {
        assert!(Public::parse(&template.public().marshal()).is_err() || template == EkTemplate::P256L2, "{template:?}");
    }
    assert!(Public::parse(&attestation_key().marshal()).is_err());
}
