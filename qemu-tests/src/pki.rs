//! Certificates for the services' mutual TLS, made for one run.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::error::{HarnessError, io_error};
use crate::run::Run;

/// The key service's name.
pub const KEY_SERVICE: &str = "key-service.test";
/// The join service's name, by which the key service knows it.
pub const JOIN_SERVICE: &str = "join-service.test";

/// An authority and what it issued, as files.
#[derive(Debug)]
pub struct Pki {
    /// The authority's certificate (PEM).
    pub authority: PathBuf,
    /// For the server.
    pub key_service: Identity,
    /// For its client.
    pub join_service: Identity,
}

/// Certificate and key (PEM), the key for its owner only.
#[derive(Debug)]
pub struct Identity {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Pki {
    /// Makes everything in the run's directory.
    pub fn new(run: &Run) -> Result<Self, HarnessError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(failed)?;
        let authority = run.write("services-ca.pem", certificate.pem())?;
        let issuer = Issuer::new(params, key);
        Ok(Self {
            authority,
            key_service: issue(run, &issuer, KEY_SERVICE, ExtendedKeyUsagePurpose::ServerAuth)?,
            join_service: issue(run, &issuer, JOIN_SERVICE, ExtendedKeyUsagePurpose::ClientAuth)?,
        })
    }
}

fn issue(
    run: &Run,
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Identity, HarnessError> {
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(failed)?;
    params.extended_key_usages = vec![usage];
    let certificate = params.signed_by(&key, issuer).map_err(failed)?;
    let certificate = run.write(&format!("{name}.pem"), certificate.pem())?;
    let path = run.file(&format!("{name}.key"));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(key.serialize_pem().as_bytes())).map_err(io_error("write", &path))?;
    Ok(Identity { certificate, key: path })
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: rcgen::Error) -> HarnessError {
    HarnessError::Unusable(format!("certificates for the services: {error}"))
}
