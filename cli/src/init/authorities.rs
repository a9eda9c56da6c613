//! The authorities of a new Kubernetes cluster: made here, kept in the cluster's directory like the master secret, sent to the first
//! machine with its keys.
//!
//! kubeadm takes authorities that exist already. So nothing has to be brought back from the first machine before there can be a
//! second control plane, an init that begins anew keeps the same cluster, and an operator with authorities of his own puts them
//! there before.

use latchkey_api::control_plane::{ControlPlaneFiles, file};
use latchkey_api::v1::ControlPlaneFile;
use latchkey_cluster_store::control_plane;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType};
use std::time::Duration;

use crate::client_certificate::{set_lifetime, text_of};
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::owner::as_owner_of_file;
use crate::store_error::unusable;

/// In the cluster's directory.
const FILE: &str = "control-plane.json";
/// As long as those that kubeadm makes: ten years.
pub(super) const LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);

/// Those of the directory, if it has any.
pub(crate) fn kept(directory: &ClusterDir) -> Result<Option<ControlPlaneFiles>, CommandError> {
    let path = directory.path(FILE);
    if !path.exists() {
        return Ok(None);
    }
    as_owner_of_file(&path, || control_plane::read(&path).map(Some).map_err(unusable))
}

/// Those of the directory, or new ones.
pub(super) fn of(directory: &ClusterDir) -> Result<ControlPlaneFiles, CommandError> {
    if let Some(kept) = kept(directory)? {
        return Ok(kept);
    }
    let made = make().map_err(|what| CommandError::local(CommandCode::SecretUnusable, what))?;
    let text = control_plane::to_json(&made);
    directory.as_owner(|| files::write_new(&directory.path(FILE), text.as_bytes(), Readers::OwnerOnly))?;
    Ok(made)
}

fn make() -> Result<ControlPlaneFiles, String> {
    // Names as kubeadm gives them; where each one's files are is the second.
    let authorities = [("kubernetes", "ca"), ("front-proxy-ca", "front-proxy-ca"), ("etcd-ca", "etcd/ca")];
    let mut made = Vec::new();
    for (name, place) in authorities {
        made.extend(authority(name, place).map_err(|error| error.to_string())?);
    }
    let accounts = KeyPair::generate().map_err(|error| error.to_string())?;
    made.push(file("sa.key", text_of(&accounts)));
    made.push(file("sa.pub", accounts.public_key_pem().into_bytes()));
    ControlPlaneFiles::new(made).map_err(|error| error.to_string())
}

fn authority(name: &str, place: &str) -> Result<[ControlPlaneFile; 2], rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyCertSign];
    set_lifetime(&mut params, LIFETIME);
    let certificate = params.self_signed(&key)?;
    Ok([file(&format!("{place}.crt"), certificate.pem().into_bytes()), file(&format!("{place}.key"), text_of(&key))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    #[test]
    fn authorities_are_made_once_for_a_directory_and_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = ClusterDir::make(directory.path()).unwrap();
        let made = of(&cluster).unwrap();
        let rights = std::fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(rights & 0o7777, 0o600);
        assert!(of(&cluster).unwrap() == made, "a second run makes another cluster");
    }

    #[test]
    fn in_a_directory_of_the_services_they_are_the_services_and_those_that_root_made_before_are_read() {
        const SERVICE: u32 = 4711;
        if !rustix::process::geteuid().is_root() {
            latchkey_test_support::skip("only root can give directories away");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        chown(directory.path(), Some(SERVICE), Some(SERVICE)).unwrap();
        let cluster = ClusterDir::make(directory.path()).unwrap();
        let made = of(&cluster).unwrap();
        let path = directory.path().join(FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), SERVICE);
        assert!(kept(&cluster).unwrap().unwrap() == made);
        chown(&path, Some(0), Some(0)).unwrap();
        assert!(kept(&cluster).unwrap().unwrap() == made);
    }

    #[test]
    fn a_damaged_file_is_refused_and_not_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = ClusterDir::make(directory.path()).unwrap();
        of(&cluster).unwrap();
        let path = directory.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap().replace("etcd/ca.key", "etcd/ca.old");
        std::fs::write(&path, &text).unwrap();
        assert!(of(&cluster).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
