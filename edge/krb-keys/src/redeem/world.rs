//! What redeeming asks of others.

use latchkey_factory_plus::{Upn, Uuid};
use latchkey_kerberos::keytab::Keytab;
use latchkey_kerberos::{AdminKey, Denied, Secret, Shown};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::secret::{Data, Stored, Written};

/// A principal with a password that the centre made for it a moment ago, and that ends soon.
pub(crate) struct OneTime {
    pub(crate) cluster: Uuid,
    pub(crate) principal: String,
    pub(crate) password: Secret,
}

/// Everything outside of this program. Each call is one effect, done or not done when it returns; what was not answered may
/// have been done.
pub(crate) trait World {
    /// A session with kadmind.
    type Admin: Administrator;

    /// A Secret of the cluster's namespace.
    async fn read(&self, name: &str) -> Result<Option<Stored>, Failure>;

    /// Writes a Secret with our label, durably: over exactly the one that was read, or where there was none.
    async fn write(&self, name: &str, before: Option<&Stored>, data: &Data) -> Result<Written, Failure>;

    /// Redeems the bootstrap link at the centre.
    async fn redeem(&self, claim: &Zeroizing<String>) -> Result<OneTime, Failure>;

    /// Gets a ticket, and throws it away.
    async fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied>;

    /// The keys of a password.
    async fn derive(&self, principal: &Upn, password: &Secret, version: u32) -> Result<Keytab, Denied>;

    /// Who is known by this key to kadmind; it is asked with the first call.
    fn admin(&self, principal: &Upn, key: AdminKey) -> Self::Admin;

    /// A text that nobody guesses: base64url of 32 random bytes.
    fn random(&self) -> Result<Zeroizing<String>, Failure>;
}

/// A session with kadmind. It lasts, whatever becomes of the password that it began with.
pub(crate) trait Administrator {
    async fn show(&self, principal: &Upn) -> Result<Option<Shown>, Denied>;
    async fn create(&self, principal: &Upn, password: &Secret) -> Result<(), Denied>;
    async fn set_password(&self, principal: &Upn, password: &Secret) -> Result<(), Denied>;
    /// Principal and password end no more.
    async fn clear_expiry(&self, principal: &Upn) -> Result<(), Denied>;
    async fn enable(&self, principal: &Upn) -> Result<(), Denied>;
}
