//! Client certificates by a cluster's own authority, where the operator has its key (`control-plane.json`): no API server is asked.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_cluster_store::certificate::names_of_pem;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
};
use zeroize::Zeroizing;

use crate::api_server::{Reach, kubeconfig};
use crate::clock::now;

/// A node's clock may be behind the operator's.
const EARLIER: Duration = Duration::from_hours(24);

/// Somebody whom API servers are to know by a certificate.
pub(crate) struct Client {
    /// Its common name.
    pub(crate) user: &'static str,
    /// Its organisation, which is a group to Kubernetes.
    pub(crate) group: Option<&'static str>,
    pub(crate) lifetime: Duration,
}

impl Client {
    /// A kubeconfig with a new key and its certificate, for the API server at `HOST:PORT`. The error says why the cluster's
    /// authority cannot be used.
    pub(crate) fn kubeconfig(&self, shared: &ControlPlaneFiles, address: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let text = |name: &str| {
            let data = shared.iter().find(|(one, _)| *one == name).map(|(_, data)| data).unwrap_or_default();
            std::str::from_utf8(data).map_err(|_| format!("{name} is no text"))
        };
        let authority = text("ca.crt")?;
        let key = || KeyPair::from_pem(text("ca.key")?).map_err(|error| format!("ca.key is no key in PKCS#8: {error}"));
        let client = KeyPair::generate().map_err(|error| error.to_string())?;
        let mut params = named(self.user, DnValue::Utf8String, self.lifetime);
        if let Some(group) = self.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        // Whoever verifies compares names byte by byte, and authorities are written in two ways.
        let printable =
            |name: String| name.as_str().try_into().map_or(DnValue::Utf8String(name), DnValue::PrintableString);
        for encoded in [DnValue::Utf8String as fn(String) -> DnValue, printable] {
            let issuer = Issuer::new(named("kubernetes", encoded, self.lifetime), key()?);
            let certificate = params.signed_by(&client, &issuer).map_err(|error| error.to_string())?.pem();
            let is_its = match (names_of_pem(&certificate), names_of_pem(authority)) {
                (Some(ours), Some(its)) => ours.issuer == its.subject,
                _ => false,
            };
            if is_its {
                let key = Zeroizing::new(text_of(&client));
                let encoded = Zeroizing::new(STANDARD.encode(&*key));
                let reach = Reach::of(address, authority);
                return Ok(kubeconfig(&reach, self.user, &STANDARD.encode(&certificate), &encoded));
            }
        }
        Err("the authority in control-plane.json has another name than kubeadm's, CN=kubernetes".to_owned())
    }
}

/// What a certificate says of this name, from now on.
pub(crate) fn named(name: &str, text: fn(String) -> DnValue, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, text(name.to_owned()));
    set_lifetime(&mut params, lifetime);
    params
}

pub(crate) fn set_lifetime(params: &mut CertificateParams, lifetime: Duration) {
    let begin = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now()).saturating_sub(EARLIER);
    params.not_before = begin;
    params.not_after = begin + EARLIER + lifetime;
}

/// PKCS#8, PEM.
pub(crate) fn text_of(key: &KeyPair) -> Vec<u8> {
    Zeroizing::new(key.serialize_pem()).as_bytes().to_vec()
}
