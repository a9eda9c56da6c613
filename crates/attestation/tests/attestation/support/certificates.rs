//! Certificates of TPMs' keys, from authorities that are made here.

use latchkey_tpm::wire::{Curve, EccPoint, Public, PublicKey};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PublicKeyData, SignatureAlgorithm, date_time_ymd,
};

pub type Authority = CertifiedIssuer<'static, KeyPair>;

pub fn authority(name: &str) -> Authority {
    CertifiedIssuer::self_signed(authority_params(name), KeyPair::generate().unwrap()).unwrap()
}

pub fn intermediate(name: &str, root: &Authority, tweak: impl FnOnce(&mut CertificateParams)) -> Authority {
    let mut params = authority_params(name);
    tweak(&mut params);
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), root).unwrap()
}

pub fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A certificate for a key of a TPM: no name, until the year 9999.
pub fn key_params(purposes: &[ExtendedKeyUsagePurpose]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.is_ca = IsCa::ExplicitNoCa;
    params.extended_key_usages = purposes.to_vec();
    params
}

/// The key of a certificate (DER), of P-256 or RSA with 2048 bits: where its encoding is found.
pub fn key_in(certificate: &[u8]) -> PublicKey {
    let after = |head: &[u8]| certificate.windows(head.len()).position(|bytes| bytes == head).map(|at| at + head.len());
    // An uncompressed point stands in a BIT STRING of 66 bytes, a modulus behind the head of its RSAPublicKey.
    if let Some(at) = after(&[0x03, 0x42, 0x00]) {
        let point = EccPoint::from_uncompressed(&certificate[at..at + 65], Curve::P256).unwrap();
        return PublicKey::Ecc { curve: Curve::P256, point };
    }
    let at = after(&RSA_2048).unwrap();
    PublicKey::Rsa { bits: 2048, exponent: 0, modulus: certificate[at..at + 256].to_vec() }
}

/// RFC 8017, appendix A.1.1: `RSAPublicKey` of 2048 bits, up to the modulus.
const RSA_2048: [u8; 9] = [0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00];

pub fn issue_for(key: &Public, issuer: &Authority, params: CertificateParams) -> Vec<u8> {
    params.signed_by(&TpmKey::of(key), issuer).unwrap().der().to_vec()
}

/// A key whose private half is in a TPM.
struct TpmKey(Vec<u8>, &'static SignatureAlgorithm);

impl TpmKey {
    fn of(public: &Public) -> Self {
        match &public.key {
            PublicKey::Ecc { point, .. } => {
                Self(point.uncompressed(Curve::P256).unwrap(), &rcgen::PKCS_ECDSA_P256_SHA256)
            }
            // With the exponent 65537.
            PublicKey::Rsa { modulus, .. } => {
                Self([&RSA_2048[..], modulus, &[0x02, 0x03, 0x01, 0x00, 0x01]].concat(), &rcgen::PKCS_RSA_SHA256)
            }
        }
    }
}

impl PublicKeyData for TpmKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.1
    }
}
