//! What is called how.

use latchkey_factory_plus::{ClusterName, Realm, Role, Upn, Uuid};

/// The Secret with this edge's claim, in [`CLAIM`].
pub(crate) const CLAIM_SECRET: &str = "krb-keys-claim";
/// Base64url of the random bytes that a bootstrap link is redeemed with.
pub(crate) const CLAIM: &str = "claim";
/// The Secret with this operator's own keys: [`CLIENT`] and [`PASSWORD`].
pub(crate) const OWN_SECRET: &str = "krb-keys-keytabs";
/// A keytab.
pub(crate) const CLIENT: &str = "client";
/// A password; the keytab's keys are those that it stands for.
pub(crate) const PASSWORD: &str = "password";
/// The Secret that Flux reads the cluster's repository with: [`USERNAME`] and [`PASSWORD`].
pub(crate) const FLUX_SECRET: &str = "flux-secrets";
/// A whole principal.
pub(crate) const USERNAME: &str = "username";

/// The cluster, and the principals of it that redeeming is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The cluster.
    pub cluster: Uuid,
    /// Its operator of keys.
    pub own: Upn,
    /// Its Flux.
    pub flux: Upn,
}

impl Names {
    /// Of a cluster in a realm.
    pub fn of(cluster: Uuid, name: &ClusterName, realm: &Realm) -> Self {
        Self { cluster, own: Role::KrbKeys.upn(name, realm), flux: Role::Flux.upn(name, realm) }
    }
}
