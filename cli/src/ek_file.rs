//! Endorsement keys in files: as a TPM's tools write them, and as clouds tell them of their machines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::{EkDigest, Refusal};
use latchkey_tpm::wire::EkTemplate;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

/// The digest of the endorsement key that a file holds: 64 hexadecimal digits, a public area (`TPMT_PUBLIC`, or `TPM2B_PUBLIC` as
/// tpm2-tools write it), a public key (PEM or DER), or what `aws ec2 get-instance-tpm-ek-pub` prints. `None` where it is none of these. Of keys that do
/// not say which template they are of, it is the one that is allowed.
pub(crate) fn digest(file: &[u8], allowed: impl Fn(EkTemplate) -> bool) -> Option<Result<EkDigest, Refusal>> {
    let text = std::str::from_utf8(file).unwrap_or_default().trim();
    if let Some(ek) = EkDigest::from_hex(&text.to_ascii_lowercase()) {
        return Some(Ok(ek));
    }
    if text.starts_with('{') {
        let told: OfAws = serde_json::from_str(text).ok()?;
        let key = STANDARD.decode(told.key_value.trim()).ok()?;
        return match told.key_format.as_str() {
            "tpmt" => Some(EkDigest::of_public_area(&key)),
            "der" => Some(EkDigest::of_subject_public_key_info(&key, allowed)),
            _ => None,
        };
    }
    if text.starts_with("-----BEGIN PUBLIC KEY-----") {
        let key = SubjectPublicKeyInfoDer::from_pem_slice(file).ok()?;
        return Some(EkDigest::of_subject_public_key_info(&key, allowed));
    }
    match file {
        // A SEQUENCE; a public area begins with an algorithm, RSA (1) or ECC (0x23).
        [0x30, ..] => Some(EkDigest::of_subject_public_key_info(file, allowed)),
        [0x00, 0x01 | 0x23, ..] => Some(EkDigest::of_public_area(file)),
        [high, low, area @ ..] if usize::from(u16::from_be_bytes([*high, *low])) == area.len() => {
            Some(EkDigest::of_public_area(area))
        }
        _ => None,
    }
}

/// What AWS tells of a `NitroTPM`'s endorsement key.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct OfAws {
    #[serde(rename = "InstanceId")]
    _instance: String,
    #[serde(rename = "KeyType")]
    _kind: String,
    key_format: String,
    key_value: String,
}

/// One template for each kind of key, of two the one that nearly every TPM has: where nothing else says which templates are meant.
pub(crate) fn is_usual(template: EkTemplate) -> bool {
    !matches!(template, EkTemplate::RsaH1 | EkTemplate::P256H2)
}
