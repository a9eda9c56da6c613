//! What the enrol service needs before it starts: its key, which images name, and rules by which nobody is taken up.

use latchkey_cluster_store::registration::{RULES, RegistrationStore, Rules};
use rcgen::KeyPair;
use serde::Serialize;
use zeroize::Zeroizing;

use super::setup;
use super::site::Site;
use crate::clusters::NAMESPACE;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::owner::as_owner_of;
use crate::pinned_key::hash_of;
use crate::store_error::unusable;

/// The most bytes of a key's file.
const LARGEST: usize = 16 << 10;

/// What machines and the operator have to know of the service.
#[derive(Serialize)]
pub(super) struct EnrolService {
    /// `HOST:PORT`.
    address: String,
    /// The hash of its key: `sha256:` and hexadecimal digits.
    key: String,
    /// Where policy, manifests, rules and invitations go.
    directory: String,
}

impl EnrolService {
    /// What machines have on their measured command line.
    pub(super) fn command_line(&self) -> String {
        format!("latchkey.centre={} latchkey.centre_key={}", self.address, self.key)
    }

    /// What the operator's commands take as `--directory`.
    pub(super) fn directory(&self) -> &str {
        &self.directory
    }
}

/// Makes key, directories and rules where there are no rules yet; later a directory that is missing was lost. A policy is the operator's, and
/// nobody is admitted without one.
pub(super) fn make(site: &Site) -> Result<EnrolService, CommandError> {
    let key = key(site)?;
    let registrations = site.layout.registrations();
    if registrations.join(RULES).exists() {
        as_owner_of(&registrations, || RegistrationStore::open(&registrations).map_err(unusable))?;
    } else {
        let rules = Rules::of(setup::local(site)?.cluster_chart, NAMESPACE);
        let make = || RegistrationStore::make(&registrations).and_then(|store| store.write_rules(&rules));
        as_owner_of(&registrations, || make().map_err(unusable))?;
    }
    Ok(EnrolService {
        address: site.parameters.enrol_service(),
        key: format!("sha256:{key}"),
        directory: registrations.display().to_string(),
    })
}

/// The hash of the service's key.
fn key(site: &Site) -> Result<String, CommandError> {
    let path = site.layout.enrol_key();
    let failed = |what: String| CommandError::local(CommandCode::SecretUnusable, what);
    if !path.exists() {
        let key = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        files::replace(&path, Zeroizing::new(key.serialize_pem()).as_bytes(), Readers::OwnerOnly)?;
    }
    let key = files::read_secret(&path, LARGEST)?;
    hash_of(&key).ok_or_else(|| {
        failed(format!("{} is no key of an enrol service: a P-256 key in PEM", path.display()))
            .fix("restore it from a backup: images of machines have its hash; or remove it, and build new images")
    })
}
