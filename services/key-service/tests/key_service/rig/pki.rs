//! Certificates of the test rig.

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An authority and the directory where its certificates go.
pub struct Authority {
    directory: PathBuf,
    name: &'static str,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate's files.
#[derive(Clone)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a certificate is for and when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Server,
    Client,
    ExpiredClient,
    ExpiredServer,
    /// From the year 4000 on.
    FutureServer,
}

impl Authority {
    pub fn new(directory: &Path, name: &'static str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        Self { directory: directory.to_owned(), name, issuer: Issuer::new(params, key) }
    }

    pub fn certificate(&self) -> PathBuf {
        self.directory.join(format!("{}.pem", self.name))
    }

    /// Issues a certificate with these subject alternative names; what contains `://` is a URI.
    pub fn issue(&self, file: &str, names: &[&str], kind: Kind) -> Identity {
        let (uris, hosts): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        let uris = uris.into_iter().map(|uri| SanType::URI(Ia5String::try_from(uri).unwrap()));
        params.subject_alt_names.extend(uris);
        params.extended_key_usages = match kind {
            Kind::Server | Kind::ExpiredServer | Kind::FutureServer => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Kind::Client | Kind::ExpiredClient => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        if kind == Kind::FutureServer {
            params.not_before = date_time_ymd(4000, 1, 1);
        }
        if matches!(kind, Kind::ExpiredClient | Kind::ExpiredServer) {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let identity = Identity {
            certificate: self.directory.join(format!("{file}.pem")),
            key: self.directory.join(format!("{file}.key")),
        };
        fs::write(&identity.certificate, certificate.pem()).unwrap();
        write_private(&identity.key, &key.serialize_pem());
        identity
    }
}

pub fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}
