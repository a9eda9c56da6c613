//! The centre's own authority, and its services' certificate.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use zeroize::Zeroizing;

use super::site::Site;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};

/// Of the authority.
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
/// Of the services' certificate; browsers take none that is valid for longer.
const LIFETIME: Duration = Duration::from_hours(397 * 24);
/// A certificate that ends within this time is made anew.
const RENEWED: Duration = Duration::from_hours(30 * 24);

/// Makes both where they are not there, and the second one anew when it ends soon. The authority's key stays in the directory:
/// whoever has it is trusted by every machine that was told of the authority.
pub(super) fn make(site: &Site) -> Result<(), CommandError> {
    let (authority, key) = (site.layout.authority(), site.layout.tls().join("authority.key"));
    let failed = |error: rcgen::Error| CommandError::local(CommandCode::SecretUnusable, error.to_string());
    if !authority.exists() {
        let (pem, private) = new_authority(&site.parameters.organisation).map_err(failed)?;
        files::replace(&key, private.as_bytes(), Readers::OwnerOnly)?;
        files::replace(&authority, pem.as_bytes(), Readers::Anyone)?;
    }
    let certificate = site.layout.certificate();
    let age = certificate.metadata().and_then(|file| file.modified()).ok().and_then(|made| made.elapsed().ok());
    if age.is_some_and(|age| age + RENEWED < LIFETIME) {
        return Ok(());
    }
    let pem = String::from_utf8_lossy(&files::read(&authority, 64 << 10)?).into_owned();
    let private = files::read_secret(&key, 64 << 10)?;
    let private = std::str::from_utf8(private.expose()).map_err(|error| CommandError::usage(error.to_string()))?;
    let issuer = KeyPair::from_pem(private).and_then(|key| Issuer::from_ca_cert_pem(&pem, key)).map_err(failed)?;
    let (pem, private) = issue(&issuer, &site.parameters.hosts()).map_err(failed)?;
    files::replace(&site.layout.private_key(), private.as_bytes(), Readers::OwnerOnly)?;
    files::replace(&certificate, pem.as_bytes(), Readers::Anyone)
}

fn new_authority(organisation: &str) -> Result<(String, Zeroizing<String>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = params(&format!("{organisation} centre"), AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok((params.self_signed(&key)?.pem(), Zeroizing::new(key.serialize_pem())))
}

fn issue(issuer: &Issuer<'_, KeyPair>, hosts: &[String]) -> Result<(String, Zeroizing<String>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = params(&hosts[0], LIFETIME);
    for host in hosts {
        params.subject_alt_names.push(match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.as_str().try_into()?),
        });
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok((params.signed_by(&key, issuer)?.pem(), Zeroizing::new(key.serialize_pem())))
}

fn params(name: &str, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // An hour back: clocks differ.
    params.not_before = (std::time::SystemTime::now() - Duration::from_hours(1)).into();
    params.not_after = params.not_before + lifetime;
    params
}
