//! The cluster's certificate authority, and what it issues.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fmt;

/// One authority for the API server, for clients and for kubelets, as kubeadm makes it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// A client's certificate and key (PEM). They are secrets of one test, and go with it.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Credentials {
    /// The certificate (PEM).
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The private key (PEM, PKCS#8).
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A certificate that somebody else issued, and its key (PEM).
    pub fn new(certificate: impl Into<String>, key: impl Into<String>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// If there is no randomness.
    pub fn make() -> Self {
        let mut params = params("kubernetes", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = key();
        let certificate = params.self_signed(&key).expect("a certificate of an authority").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its certificate (PEM).
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A client's: its common name is the user, its organisation is the group.
    ///
    /// # Panics
    /// As [`Self::make`].
    pub fn client(&self, user: &str, group: Option<&str>) -> Credentials {
        let mut params = params(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    pub(crate) fn server(&self, names: &[&str]) -> Credentials {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = params("kube-apiserver", None);
        params.subject_alt_names = CertificateParams::new(names).expect("names").subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Credentials {
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Credentials { certificate, key: key.serialize_pem() }
    }
}

/// A key of the kind that the signing of service accounts' tokens wants as well.
pub(crate) fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn params(name: &str, organisation: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    if let Some(organisation) = organisation {
        subject.push(DnType::OrganizationName, organisation);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}
