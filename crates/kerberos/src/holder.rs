//! Somebody who has keys.

use crate::Secret;
use crate::admin::{keytab_of, other_answer, usable};
use crate::code::KerberosCode;
use crate::denied::Denied;
use crate::keytab::Keytab;
use crate::pool::{Limits, Pool, Start};
use crate::wire::{AdminKey, Answer, MAX_KEYTAB, Request};
use latchkey_factory_plus::Upn;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Calls that wait for those that go on, at most.
const WAITING: usize = 256;

/// How keys are tried.
#[derive(Clone, Debug)]
pub struct HolderSettings {
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration; `/etc/krb5.conf`, where there is none.
    pub krb5_config: Option<PathBuf>,
    /// Calls that go on at the same time, at most.
    pub helpers: usize,
    /// Of each call, with the wait for those before it.
    pub deadline: Duration,
}

/// Tries keys at the KDC, and makes keys of passwords. Clones share their helpers.
#[derive(Clone)]
pub struct Holder(Pool);

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder")
    }
}

impl Holder {
    /// Starts nothing yet: the first call does.
    pub fn new(settings: HolderSettings) -> Self {
        let start = Start {
            program: settings.helper,
            environment: settings.krb5_config.map(|path| ("KRB5_CONFIG", path)).into_iter().collect(),
            open: Request::OpenHolder,
            longest_life: None,
        };
        let limits = Limits { helpers: settings.helpers, deadline: settings.deadline, waiting: WAITING };
        Self(Pool::new(start, limits))
    }

    /// Gets a ticket of the realm with a password or a keytab, and throws it away. What the KDC answers is encrypted with the
    /// principal's key: somebody who answers in its place cannot make a key that does not serve look as if it did.
    ///
    /// # Errors
    /// `kerberos-wrong-password` and `kerberos-keytab-key-missing`: the key does not serve. `kerberos-principal-unknown`, and
    /// what an administrator did to the principal; or why the KDC was not asked.
    pub async fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied> {
        match key {
            AdminKey::Password(password) => drop(usable(password)?),
            AdminKey::KeytabBytes(bytes) if bytes.len() > MAX_KEYTAB => {
                return Err(Denied::new(KerberosCode::KeytabMissing, "a keytab over 64 KiB"));
            }
            AdminKey::Keytab(_) | AdminKey::KeytabBytes(_) => {}
        }
        match self.0.call(&Request::Authenticate { principal: principal.clone(), key: key.clone() }).await? {
            Answer::Done => Ok(()),
            _ => Err(other_answer()),
        }
    }

    /// The keys that a password stands for (RFC 3961, with the salt that the KDC takes by itself), of each AES kind.
    /// `version` is the one that the KDC shows of the principal.
    ///
    /// # Errors
    /// The password is none, or the library has no such kind.
    pub async fn derive(&self, principal: &Upn, password: &Secret, version: u32) -> Result<Keytab, Denied> {
        let request = Request::Derive { principal: principal.clone(), password: usable(password)?, version };
        keytab_of(principal, self.0.call(&request).await?)
    }
}
