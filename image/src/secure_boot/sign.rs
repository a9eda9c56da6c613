//! Signs a PE file for Secure Boot: Authenticode, as Microsoft's "Windows Authenticode Portable Executable Signature
//! Format" has it, in a PKCS #7 `SignedData` (RFC 2315).
//!
//! sbsign does the same, but puts the time of day into each signature, so that no two are equal. This one carries none,
//! which the format leaves open and firmware does not look at; RSA with PKCS #1 v1.5 padding is deterministic.

use latchkey_boot_formats::sha256;
use latchkey_keys::SecretVec;
use latchkey_measurements::pe::Image;
use latchkey_measurements::predict::authenticode;
use ring::rand::SystemRandom;
use ring::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

use super::SecureBootError;
use super::der::{BIT_STRING, CONTEXT_0, Certificate, INTEGER, NULL, OCTET_STRING, OID, SEQUENCE, SET, element};

/// A key for Secure Boot, with its certificate. Its file's content is wiped once it is read; what ring makes of it is not.
pub struct Signer {
    key: RsaKeyPair,
    certificate: Vec<u8>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({:?})", hex::encode(sha256(&[&self.certificate])))
    }
}

impl Signer {
    /// Reads an RSA key (PKCS #1 or #8, 2048 bits or more) and its certificate, both PEM.
    pub fn from_pem(key: &SecretVec, certificate: &[u8]) -> Result<Self, SecureBootError> {
        let certificate = super::certificate(certificate)?;
        let mut der = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|_| SecureBootError::Key)?;
        let key = match &der {
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).ok(),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()).ok(),
            _ => None,
        };
        der.zeroize();
        let key = key.ok_or(SecureBootError::Key)?;
        let names = Certificate::parse(&certificate).ok_or(SecureBootError::Certificate)?;
        if names.public_key != key.public_key().as_ref() {
            return Err(SecureBootError::KeyOfAnother);
        }
        Ok(Self { key, certificate })
    }

    /// The certificate, DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The file with a signature. One that is signed already is refused.
    pub fn sign(&self, file: &[u8]) -> Result<Vec<u8>, SecureBootError> {
        let image = Image::parse(file).map_err(|_| SecureBootError::NoImage)?;
        let entry = image.certificate_entry_field().filter(|_| !image.is_signed()).ok_or(SecureBootError::NoImage)?;
        let hash = authenticode(&image).map_err(|_| SecureBootError::NoImage)?;
        // Signatures begin at a multiple of eight bytes; what were added up to it would be hashed, so nothing is.
        if !file.len().is_multiple_of(8) {
            return Err(SecureBootError::NoImage);
        }
        let signature = self.signed_data(hash.as_bytes())?;
        let length = u32::try_from(signature.len() + 8).map_err(|_| SecureBootError::NoImage)?;
        let offset = u32::try_from(file.len()).map_err(|_| SecureBootError::NoImage)?;
        let size = length.next_multiple_of(8);
        let mut signed = file.to_vec();
        let field = signed.get_mut(entry..entry + 8).ok_or(SecureBootError::NoImage)?;
        field.copy_from_slice(&[offset.to_le_bytes(), size.to_le_bytes()].concat());
        // WIN_CERTIFICATE: length, WIN_CERT_REVISION_2_0, WIN_CERT_TYPE_PKCS_SIGNED_DATA.
        signed.extend(length.to_le_bytes());
        signed.extend([0x00, 0x02, 0x02, 0x00]);
        signed.extend(signature);
        signed.resize(signed.len().next_multiple_of(8), 0);
        Ok(signed)
    }

    /// `ContentInfo` with the `SignedData` over an image's hash.
    fn signed_data(&self, image: &[u8]) -> Result<Vec<u8>, SecureBootError> {
        let hash_algorithm = algorithm(SHA_256);
        let digest_info = element(SEQUENCE, &[&hash_algorithm, &element(OCTET_STRING, &[image])]);
        let indirect = [image_data(), digest_info].concat();
        let content = element(CONTEXT_0, &[&element(SEQUENCE, &[&indirect])]);
        let content = element(SEQUENCE, &[&element(OID, &[SPC_INDIRECT_DATA]), &content]);

        // Of the content, without its tag and length.
        let content_hash = sha256(&[&indirect]);
        let attributes = [
            attribute(CONTENT_TYPE, &element(OID, &[SPC_INDIRECT_DATA])),
            attribute(MESSAGE_DIGEST, &element(OCTET_STRING, &[&content_hash])),
        ]
        .concat();
        // "A separate encoding of the signedAttrs field is performed for message digest calculation" (RFC 5652, section
        // 5.4): as a SET OF.
        let mut signature = vec![0; self.key.public().modulus_len()];
        let covered = element(SET, &[&attributes]);
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &covered, &mut signature)
            .map_err(|_| SecureBootError::Key)?;

        let names = Certificate::parse(&self.certificate).ok_or(SecureBootError::Certificate)?;
        let signer = element(
            SEQUENCE,
            &[
                VERSION_1,
                &element(SEQUENCE, &[names.issuer, names.serial]),
                &hash_algorithm,
                &element(CONTEXT_0, &[&attributes]),
                &algorithm(RSA_ENCRYPTION),
                &element(OCTET_STRING, &[&signature]),
            ],
        );
        let certificates = element(CONTEXT_0, &[&self.certificate]);
        let parts = [VERSION_1, &element(SET, &[&hash_algorithm]), &content, &certificates, &element(SET, &[&signer])];
        let data = element(SEQUENCE, &parts);
        Ok(element(SEQUENCE, &[&element(OID, &[SIGNED_DATA]), &element(CONTEXT_0, &[&data])]))
    }
}

/// A certificate from PEM.
pub(super) fn certificate(pem: &[u8]) -> Result<Vec<u8>, SecureBootError> {
    let certificate = CertificateDer::from_pem_slice(pem).map_err(|_| SecureBootError::Certificate)?;
    Certificate::parse(&certificate).ok_or(SecureBootError::Certificate)?;
    Ok(certificate.to_vec())
}

/// `SpcAttributeTypeAndOptionalValue` of a PE image: no flags, and the file name that stands in every signature.
fn image_data() -> Vec<u8> {
    let obsolete: Vec<u8> = "<<<Obsolete>>>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let name = element(CONTEXT_0, &[&element(0xa2, &[&element(0x80, &[&obsolete])])]);
    let flags = element(BIT_STRING, &[&[0]]);
    element(SEQUENCE, &[&element(OID, &[SPC_PE_IMAGE_DATA]), &element(SEQUENCE, &[&flags, &name])])
}

fn algorithm(oid: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[&element(OID, &[oid]), &element(NULL, &[])])
}

fn attribute(oid: &[u8], value: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[&element(OID, &[oid]), &element(SET, &[value])])
}

const VERSION_1: &[u8] = &[INTEGER, 1, 1];
/// 1.2.840.113549.1.7.2
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
/// 1.2.840.113549.1.9.3
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x03];
/// 1.2.840.113549.1.9.4
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04];
/// 1.2.840.113549.1.1.1
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 2.16.840.1.101.3.4.2.1
const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
/// 1.3.6.1.4.1.311.2.1.4
const SPC_INDIRECT_DATA: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x01, 0x04];
/// 1.3.6.1.4.1.311.2.1.15
const SPC_PE_IMAGE_DATA: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x01, 0x0f];
