//! Join and key service on the control planes of a new cluster: what they read, sent to the first machine with its keys.
//!
//! The authorities of the cluster are made here, so the join service's client certificate is made here, too, before there is an API
//! server: its key goes the way of the master secret, and nothing has to come back. Its kubeconfig leads to the API server of the
//! machine it is on, so that it is the same on every control plane.

use latchkey_api::control_plane::{ControlPlaneFiles, file};
use latchkey_api::service_files::{MASTER_SECRET, MAX_FILE, ServiceFiles};
use latchkey_cluster_store::control_plane;
use latchkey_keys::{MasterSecret, SecretVec};
use rcgen::{BasicConstraints, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use zeroize::Zeroizing;

use super::authorities::LIFETIME;
use crate::api_server::{KUBEADM_PORT, SERVICE};
use crate::arguments::Arguments;
use crate::client_certificate::{Client, named, text_of};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{is_standard_input, read_secret};
use crate::pinned_key::hash_of;

/// What the key service's certificate is for, as the images' configuration of the join service says it.
const KEY_SERVICE: &str = "key-service.latchkey.internal";
/// Whom the key service gives keys, as the images' configuration of it says.
const KEY_CLIENT: &str = "join-service.latchkey.internal";

/// What only the operator has of it.
pub(super) struct Inside {
    identity: SecretVec,
    master: SecretVec,
}

impl Inside {
    /// `None` if the services are to be outside, as they are if nothing is said.
    pub(super) fn from_arguments(arguments: &Arguments, is_in_api_server: bool) -> Result<Option<Self>, CommandError> {
        let key = arguments.path("join-service-key");
        match arguments.text("services")? {
            None | Some("outside") if key.is_some() => {
                let what = "--join-service-key is for services inside the cluster";
                Err(CommandError::usage(what).fix("add --services inside, or leave the key where the service is"))
            }
            None | Some("outside") => Ok(None),
            Some("inside") if !is_in_api_server => {
                let what = "--services inside needs --store kubernetes: several services decide by one API server";
                Err(CommandError::usage(what))
            }
            Some("inside") => {
                let Some(key) = key else {
                    let what = "--services inside needs --join-service-key: the key whose hash is in the image";
                    return Err(CommandError::usage(what)
                        .fix("`latchkey-join-service --new-key FILE` makes one, before the image"));
                };
                let master = arguments.required_path("master-secret")?;
                if [key, master].into_iter().any(is_standard_input) {
                    return Err(CommandError::usage(
                        "--services inside reads the master secret and the key from files",
                    ));
                }
                let identity = read_secret(key, MAX_FILE)?;
                hash_of(&identity).ok_or_else(|| {
                    let what = format!("{} is no key of a join service: a P-256 key in PEM", key.display());
                    CommandError::usage(what).fix("`latchkey-join-service --new-key FILE` makes one")
                })?;
                Ok(Some(Self { identity, master: read_secret(master, MasterSecret::MAX_FILE_SIZE)? }))
            }
            Some(other) => Err(CommandError::usage(format!("--services {other}: expected `inside` or `outside`"))),
        }
    }

    /// What machines have to know of the service.
    pub(super) fn key_hash(&self) -> String {
        hash_of(&self.identity).unwrap_or_default()
    }

    /// All of it, with certificates that are made now.
    pub(super) fn files(&self, shared: &ControlPlaneFiles) -> Result<ServiceFiles, CommandError> {
        let unusable = |what: String| CommandError::local(CommandCode::SecretUnusable, what);
        let made = |error: rcgen::Error| unusable(error.to_string());
        let kubeconfig = service_kubeconfig(shared).map_err(unusable)?;
        let authority = Authority::make().map_err(made)?;
        let server = authority.issue(KEY_SERVICE, ExtendedKeyUsagePurpose::ServerAuth).map_err(made)?;
        let client = authority.issue(KEY_CLIENT, ExtendedKeyUsagePurpose::ClientAuth).map_err(made)?;
        let files = vec![
            file("identity.key", self.identity.expose().to_vec()),
            file(MASTER_SECRET, self.master.expose().to_vec()),
            file("control-plane.json", control_plane::to_json(shared).as_bytes().to_vec()),
            file("join-service.kubeconfig", kubeconfig.to_vec()),
            file("key-service-ca.pem", authority.certificate.into_bytes()),
            file("key-service.pem", server.0.into_bytes()),
            file("key-service.key", server.1),
            file("key-client.pem", client.0.into_bytes()),
            file("key-client.key", client.1),
        ];
        ServiceFiles::new(files).map_err(|error| unusable(error.to_string()))
    }
}

/// Of the two services, and of nobody else: its key is gone when the certificates are made.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn make() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = named("latchkey key service", DnValue::Utf8String, LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Result<(String, Vec<u8>), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = named(name, DnValue::Utf8String, LIFETIME);
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name.try_into()?)];
        params.extended_key_usages = vec![usage];
        Ok((params.signed_by(&key, &self.issuer)?.pem(), text_of(&key)))
    }
}

/// The join service's, to the API server beside it.
fn service_kubeconfig(shared: &ControlPlaneFiles) -> Result<Zeroizing<Vec<u8>>, String> {
    let client = Client { user: SERVICE, group: None, lifetime: LIFETIME };
    client.kubeconfig(shared, &format!("127.0.0.1:{KUBEADM_PORT}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_dir::ClusterDir;
    use crate::init::authorities;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::CertificateParams;
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
    use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

    fn inside() -> Inside {
        let identity = KeyPair::generate().unwrap().serialize_pem();
        Inside { identity: SecretVec::from_slice(identity.as_bytes()), master: SecretVec::from_slice(b"{}") }
    }

    fn shared() -> ControlPlaneFiles {
        let directory = tempfile::tempdir().unwrap();
        authorities::of(&ClusterDir::make(directory.path()).unwrap()).unwrap()
    }

    /// The same with another authority of the cluster.
    fn with_authority(shared: &ControlPlaneFiles, params: &CertificateParams) -> ControlPlaneFiles {
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let files = shared.iter().map(|(name, data)| match name {
            "ca.crt" => file(name, certificate.clone().into_bytes()),
            "ca.key" => file(name, text_of(&key)),
            _ => file(name, data.to_vec()),
        });
        ControlPlaneFiles::new(files.collect()).unwrap()
    }

    /// Whether a certificate is of this authority, for this use.
    fn is_issued(certificate: &[u8], authority: &[u8], usage: KeyUsage) -> bool {
        let authority = CertificateDer::from_pem_slice(authority).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
        let anchors = [anchor_from_trusted_cert(&authority).unwrap()];
        let certificate = EndEntityCert::try_from(&certificate).unwrap();
        let algorithms = [webpki::ring::ECDSA_P256_SHA256];
        certificate.verify_for_usage(&algorithms, &anchors, &[], UnixTime::now(), usage, None, None).is_ok()
    }

    #[test]
    fn the_services_certificates_are_for_each_other_and_for_nothing_else() {
        let shared = shared();
        let inside = inside();
        let files = inside.files(&shared).unwrap();
        let of = |name: &str| files.iter().find(|(one, _)| *one == name).unwrap().1.to_vec();
        let ca = of("key-service-ca.pem");
        assert!(is_issued(&of("key-service.pem"), &ca, KeyUsage::server_auth()));
        assert!(!is_issued(&of("key-service.pem"), &ca, KeyUsage::client_auth()), "the service calls nobody");
        assert!(is_issued(&of("key-client.pem"), &ca, KeyUsage::client_auth()));
        for (name, expected) in [("key-service.pem", KEY_SERVICE), ("key-client.pem", KEY_CLIENT)] {
            let der = CertificateDer::from_pem_slice(&of(name)).unwrap();
            let expected = ServerName::try_from(expected).unwrap();
            EndEntityCert::try_from(&der).unwrap().verify_is_valid_for_subject_name(&expected).unwrap();
        }
        // No certificate of the cluster's authority is one of theirs, and no key is there twice.
        assert!(!is_issued(&of("key-client.pem"), shared.iter().next().unwrap().1, KeyUsage::client_auth()));
        assert!(of("key-client.key") != of("key-service.key"));
        assert!(control_plane::parse(&of("control-plane.json")).unwrap() == shared);
        assert_eq!(inside.key_hash().len(), 64);
    }

    #[test]
    fn an_authority_is_taken_in_both_encodings_of_kubeadm_s_name_and_in_no_other() {
        let shared = shared();
        let authority = |name: &str, text| {
            let mut params = named(name, text, LIFETIME);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let printable = |name: String| DnValue::PrintableString(name.as_str().try_into().unwrap());
        for encoded in [DnValue::Utf8String as fn(String) -> DnValue, printable] {
            let shared = with_authority(&shared, &authority("kubernetes", encoded));
            let text = service_kubeconfig(&shared).unwrap();
            let text = std::str::from_utf8(&text).unwrap();
            let certificate = text.split_once(r#""client-certificate-data": ""#).unwrap().1.split_once('"').unwrap().0;
            let certificate = STANDARD.decode(certificate).unwrap();
            let ca = shared.iter().next().unwrap().1;
            assert!(is_issued(&certificate, ca, KeyUsage::client_auth()));
            assert!(!is_issued(&certificate, ca, KeyUsage::server_auth()), "no API server");
            assert!(text.contains(r#""server": "https://127.0.0.1:6443""#), "another server");
        }
        let other = with_authority(&shared, &authority("plant", DnValue::Utf8String));
        assert!(service_kubeconfig(&other).unwrap_err().contains("CN=kubernetes"));
    }
}
