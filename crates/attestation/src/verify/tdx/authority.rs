//! Intel's authorities, by their names, and its root, by its digest.

use rustls_pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Encode as _;

use crate::parse::Digest;
use crate::verify::published::common_name;

/// Who certifies platforms' keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PckAuthority {
    /// For platforms of one package.
    Processor,
    /// For platforms of several.
    Platform,
}

impl PckAuthority {
    /// Its name at Intel's service (`ca=`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Platform => "platform",
        }
    }

    /// The authority that a key's certificate names as its issuer.
    pub(super) fn of_issuer(certificate: &Certificate) -> Option<Self> {
        let issuer = certificate.tbs_certificate().issuer().to_der().ok()?;
        match subject(common_name(&issuer).as_deref())? {
            Subject::Authority(authority) => Some(authority),
            Subject::Root | Subject::Signing => None,
        }
    }
}

/// Whose certificate, by its common name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Root,
    /// It signs TCB information and the identity of the quoting enclave.
    Signing,
    Authority(PckAuthority),
}

pub(super) fn subject(common_name: Option<&str>) -> Option<Subject> {
    Some(match common_name? {
        "Intel SGX Root CA" => Subject::Root,
        "Intel SGX TCB Signing" => Subject::Signing,
        "Intel SGX PCK Processor CA" => Subject::Authority(PckAuthority::Processor),
        "Intel SGX PCK Platform CA" => Subject::Authority(PckAuthority::Platform),
        _ => return None,
    })
}

/// Certificates one after the other, as PEM: the form in which the library takes chains.
pub(super) fn pem(certificates: &[&CertificateDer<'_>]) -> String {
    use base64::Engine as _;
    let one = |der: &&CertificateDer<'_>| {
        let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    certificates.iter().map(one).collect()
}

/// SHA-256 of the DER of Intel's root, as `openssl x509 -fingerprint -sha256` says it: built in, so that no server, file or peer can
/// add one.
pub(super) const ROOT: Digest = Digest([
    0x44, 0xa0, 0x19, 0x6b, 0x2b, 0x99, 0xf8, 0x89, 0xb8, 0xe1, 0x49, 0xe9, 0x5b, 0x80, 0x7a, 0x35, 0x0e, 0x74, 0x24,
    0x96, 0x43, 0x99, 0xe8, 0x85, 0xa7, 0xcb, 0xb8, 0xcc, 0xfa, 0xb6, 0x74, 0xd3,
]);
