//! Keys of endorsement-key templates as X.509 has them: `SubjectPublicKeyInfo` (RFC 5280, section 4.1.2.7), DER.

use latchkey_tpm::wire::{Curve, EccPoint, PublicKey};

/// The key, if it can be one of a TCG template: P-256, P-384, P-521, or RSA of 2048, 3072 or 4096 bits with the exponent 65537. A few
/// encodings of each kind are known, so equal keys are equal bytes.
pub(crate) fn public_key(spki: &[u8]) -> Option<PublicKey> {
    for (prefix, curve) in [(SPKI_P256, Curve::P256), (SPKI_P384, Curve::P384), (SPKI_P521, Curve::P521)] {
        if let Some(point) = spki.strip_prefix(prefix) {
            return Some(PublicKey::Ecc { curve, point: EccPoint::from_uncompressed(point, curve)? });
        }
    }
    RSA_BITS.into_iter().find_map(|bits| {
        let modulus = RSA_ALGORITHMS.iter().find_map(|algorithm| {
            let head = rsa_head(algorithm, bits / 8)?;
            spki.strip_prefix(head.as_slice())?.strip_suffix(EXPONENT_65537)
        })?;
        (modulus.len() == usize::from(bits / 8) && modulus.first().is_some_and(|byte| byte & 0x80 != 0))
            .then(|| PublicKey::Rsa { bits, exponent: 0, modulus: modulus.to_vec() })
    })
}

/// Everything before a modulus of `size` bytes: SEQUENCE { algorithm, BIT STRING { SEQUENCE { INTEGER … } } }, each with a length of
/// two bytes.
fn rsa_head(algorithm: &[u8], size: u16) -> Option<Vec<u8>> {
    let integer = size + 1;
    let key = 4 + integer + u16::try_from(EXPONENT_65537.len()).ok()?;
    let bits = 1 + 4 + key;
    let whole = u16::try_from(algorithm.len()).ok()? + 4 + bits;
    let long = |tag: u8, length: u16| [&[tag, 0x82][..], &length.to_be_bytes()].concat();
    Some(
        [&long(0x30, whole)[..], algorithm, &long(0x03, bits), &[0], &long(0x30, key), &long(0x02, integer), &[0]]
            .concat(),
    )
}

const RSA_BITS: [u16; 3] = [2048, 3072, 4096];
/// RFC 5480, section 2: id-ecPublicKey with secp256r1, up to the uncompressed point.
const SPKI_P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// RFC 5480, section 2: id-ecPublicKey with secp384r1, up to the uncompressed point.
const SPKI_P384: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22, 0x03, 0x62, 0x00,
];
/// RFC 5480, section 2: id-ecPublicKey with secp521r1, up to the uncompressed point.
const SPKI_P521: &[u8] = &[
    0x30, 0x81, 0x9b, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x23, 0x03, 0x81, 0x86, 0x00,
];
/// RFC 3279, section 2.3.1 (rsaEncryption) and RFC 4055, section 1.2 (id-RSAES-OAEP without parameters, with empty
/// ones). TPM makers use both kinds for EKs.
const RSA_ALGORITHMS: &[&[u8]] = &[
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00],
    &[0x30, 0x0b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07],
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07, 0x30, 0x00],
];
/// The end of an `RSAPublicKey`: INTEGER 65537, the only exponent of a TCG template.
const EXPONENT_65537: &[u8] = &[0x02, 0x03, 0x01, 0x00, 0x01];
