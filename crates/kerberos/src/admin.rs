//! Principals, made and changed.

use crate::Secret;
use crate::code::KerberosCode;
use crate::denied::Denied;
use crate::keytab::{Entry, Keytab};
use crate::pool::{Limits, Pool, Start};
use crate::wire::{AdminKey, Answer, Change, MAX_PASSWORD, Request, Shown};
use latchkey_factory_plus::Upn;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A connection to kadmind is made anew after this time: its ticket must not end on the way.
const LONGEST_CONNECTION: Duration = Duration::from_mins(5);
/// Calls that wait for the one that works, at most.
const WAITING: usize = 256;

/// Who administrates, and where.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // it may hold a password
pub struct AdminSettings {
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration; `/etc/krb5.conf`, where there is none.
    pub krb5_config: Option<PathBuf>,
    /// Who asks kadmind.
    pub principal: Upn,
    /// How it proves that.
    pub key: AdminKey,
    /// Of each call, with the wait for those before it.
    pub deadline: Duration,
}

/// Makes, changes and removes principals through kadmind, one call after another. Clones share the connection.
///
/// What a call is refused for depends on `kadm5.acl`: see [`crate::acl`].
#[derive(Clone)]
pub struct Admin(Pool);

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    /// Starts nothing yet: the first call does.
    pub fn new(settings: AdminSettings) -> Self {
        let start = Start {
            program: settings.helper,
            environment: settings.krb5_config.map(|path| ("KRB5_CONFIG", path)).into_iter().collect(),
            open: Request::OpenAdmin { principal: settings.principal, key: settings.key },
            longest_life: Some(LONGEST_CONNECTION),
        };
        Self(Pool::new(start, Limits { helpers: 1, deadline: settings.deadline, waiting: WAITING }))
    }

    /// Makes a principal with a random key that nobody knows: [`Self::new_keys`] gives it those of a keytab.
    ///
    /// # Errors
    /// `kerberos-principal-exists`, and as [`Self::show`].
    pub async fn create_random(&self, principal: &Upn) -> Result<(), Denied> {
        let principal = principal.clone();
        self.done(Request::Create { principal, password: None, password_expires: None, expires: None }).await
    }

    /// Makes a principal with a password. `password_expires` (seconds since 1970) ends the password, until new keys take its
    /// place; who knows it may still change it over kpasswd. `expires` ends the principal, and no new key changes that.
    ///
    /// # Errors
    /// `kerberos-principal-exists`, `kerberos-password-refused`, and as [`Self::show`].
    pub async fn create_with_password(
        &self,
        principal: &Upn,
        password: &Secret,
        password_expires: Option<u32>,
        expires: Option<u32>,
    ) -> Result<(), Denied> {
        let password = Some(usable(password)?);
        self.done(Request::Create { principal: principal.clone(), password, password_expires, expires }).await
    }

    /// Sets a password, and when it ends; keys that the principal has are replaced.
    ///
    /// # Errors
    /// As [`Self::create_with_password`].
    pub async fn set_password(
        &self,
        principal: &Upn,
        password: &Secret,
        password_expires: Option<u32>,
    ) -> Result<(), Denied> {
        let password = usable(password)?;
        self.done(Request::SetPassword { principal: principal.clone(), password, password_expires }).await
    }

    /// Gives new random keys to a principal, and to the caller, as `ktadd` of kadmin does. Older ones are void.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn new_keys(&self, principal: &Upn) -> Result<Keytab, Denied> {
        self.give_keys(principal, false).await
    }

    /// The same, but tickets that were issued for older keys stay good, until [`Self::trim`].
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn new_keys_beside_old(&self, principal: &Upn) -> Result<Keytab, Denied> {
        self.give_keys(principal, true).await
    }

    /// Drops all keys of a principal but the newest.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn trim(&self, principal: &Upn) -> Result<(), Denied> {
        self.done(Request::Trim { principal: principal.clone() }).await
    }

    async fn give_keys(&self, principal: &Upn, keep_old: bool) -> Result<Keytab, Denied> {
        keytab_of(principal, self.0.call(&Request::NewKeys { principal: principal.clone(), keep_old }).await?)
    }

    /// Lets tickets be issued to and for a principal again.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn enable(&self, principal: &Upn) -> Result<(), Denied> {
        self.modify(principal, Change::Enable).await
    }

    /// Ends that; its keys stay. Tickets that it has already are good until they end.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn disable(&self, principal: &Upn) -> Result<(), Denied> {
        self.modify(principal, Change::Disable).await
    }

    /// Says when a principal ends (seconds since 1970); never, where there is no time.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn set_expiry(&self, principal: &Upn, expires: Option<u32>) -> Result<(), Denied> {
        self.modify(principal, Change::Expires(expires)).await
    }

    /// Says when its password ends (seconds since 1970); never, where there is no time.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn set_password_expiry(&self, principal: &Upn, expires: Option<u32>) -> Result<(), Denied> {
        self.modify(principal, Change::PasswordExpires(expires)).await
    }

    /// Deletes a principal.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn delete(&self, principal: &Upn) -> Result<(), Denied> {
        self.done(Request::Delete { principal: principal.clone() }).await
    }

    /// What kadmind tells about a principal; nothing, where there is none of this name.
    ///
    /// # Errors
    /// `kerberos-principal-unknown` (of other calls), `kerberos-admin-refused`, or why kadmind was not asked.
    pub async fn show(&self, principal: &Upn) -> Result<Option<Shown>, Denied> {
        match self.0.call(&Request::Show { principal: principal.clone() }).await? {
            Answer::Shown(shown) => Ok(shown),
            _ => Err(other_answer()),
        }
    }

    /// The principals that match a pattern of kadmind (`*`, `?`, `[…]`; all, with `*`), as far as [`Upn`] can name them.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn list(&self, pattern: &str) -> Result<Vec<Upn>, Denied> {
        if pattern.is_empty() || pattern.len() > 255 || pattern.contains('\0') {
            return Err(Denied::new(KerberosCode::PrincipalNotAccepted, "a pattern has 1 to 255 bytes, and no NUL"));
        }
        match self.0.call(&Request::List { pattern: pattern.to_owned() }).await? {
            Answer::Names(names) => Ok(names.iter().filter_map(|name| name.parse::<Upn>().ok()).collect()),
            _ => Err(other_answer()),
        }
    }

    async fn modify(&self, principal: &Upn, change: Change) -> Result<(), Denied> {
        self.done(Request::Modify { principal: principal.clone(), change }).await
    }

    async fn done(&self, request: Request) -> Result<(), Denied> {
        match self.0.call(&request).await? {
            Answer::Done => Ok(()),
            _ => Err(other_answer()),
        }
    }
}

/// The keytab of an answer with keys.
pub(crate) fn keytab_of(principal: &Upn, answer: Answer) -> Result<Keytab, Denied> {
    let Answer::Keys { version, keys } = answer else { return Err(other_answer()) };
    let mut keytab = Keytab::default();
    for key in keys {
        let entry = Entry { principal: principal.clone(), time: 0, version, kind: key.kind, key: key.bytes };
        keytab.add(entry).map_err(|error| Denied::new(KerberosCode::Failed, error))?;
    }
    Ok(keytab)
}

pub(crate) fn usable(password: &Secret) -> Result<Secret, Denied> {
    if password.is_empty() || password.len() > MAX_PASSWORD || password.contains(&0) {
        let detail = "a password has 1 to 1024 bytes, and no NUL";
        return Err(Denied::new(KerberosCode::PasswordRefused, detail));
    }
    Ok(password.clone())
}

pub(crate) fn other_answer() -> Denied {
    Denied::new(KerberosCode::HelperFailed, "an answer to another request")
}
