//! Who somebody is.

use crate::Secret;
use crate::code::KerberosCode;
use crate::denied::Denied;
use crate::pool::{Limits, Pool, Start};
use crate::wire::{Answer, MAX_PASSWORD, MAX_TOKEN, Request};
use latchkey_factory_plus::{Realm, Upn};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// That somebody is who it says: made by [`Kerberos`] alone, after the KDC's and the keytab's word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verified {
    upn: Upn,
}

impl Verified {
    /// Who.
    pub fn upn(&self) -> &Upn {
        &self.upn
    }

    /// Who.
    pub fn into_upn(self) -> Upn {
        self.upn
    }
}

/// What a service verifies with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration; `/etc/krb5.conf`, where there is none.
    pub krb5_config: Option<PathBuf>,
    /// The service's keys.
    pub keytab: PathBuf,
    /// The service that clients get tickets for, `HTTP/host@REALM`.
    pub service: Upn,
    /// A file where tokens that were used are remembered, for all helpers and across restarts: in a directory that only this
    /// service writes to.
    pub replay_cache: PathBuf,
    /// Calls that go on at the same time, at most.
    pub helpers: usize,
    /// Of each call, from the moment it is made.
    pub deadline: Duration,
    /// Calls that wait beyond those, at most.
    pub waiting: usize,
}

/// Verifies passwords and tokens. Clones share their helpers.
#[derive(Clone)]
pub struct Kerberos {
    pool: Pool,
    realm: Realm,
}

impl fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kerberos").field("realm", &self.realm).finish_non_exhaustive()
    }
}

impl Kerberos {
    /// Starts nothing yet: the first call does.
    pub fn new(settings: Settings) -> Self {
        let realm = settings.service.to_realm();
        let mut replays = std::ffi::OsString::from("file2:");
        replays.push(&settings.replay_cache);
        let mut environment = vec![("KRB5RCACHENAME", PathBuf::from(replays))];
        environment.extend(settings.krb5_config.map(|path| ("KRB5_CONFIG", path)));
        let start = Start {
            program: settings.helper,
            environment,
            open: Request::OpenVerifier { keytab: settings.keytab, service: settings.service },
            longest_life: None,
        };
        let limits = Limits { helpers: settings.helpers, deadline: settings.deadline, waiting: settings.waiting };
        Self { pool: Pool::new(start, limits), realm }
    }

    /// The service's realm: the one of users that name none.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Gets a ticket for the service with this password, and verifies the ticket with the service's keytab: somebody who
    /// answers in the KDC's place cannot make one.
    ///
    /// # Errors
    /// Why not: see [`Denied::is_outage`].
    pub async fn verify_password(&self, principal: &Upn, password: &Secret) -> Result<Verified, Denied> {
        let refused = |detail| Err(Denied::new(KerberosCode::WrongPassword, detail));
        if password.is_empty() {
            return refused("an empty password");
        }
        if password.len() > MAX_PASSWORD || password.contains(&0) {
            return refused("a password of more than 1 KiB, or with a NUL");
        }
        let request = Request::VerifyPassword { principal: principal.clone(), password: password.clone() };
        match self.pool.call(&request).await? {
            Answer::Verified(verified) if verified == *principal => Ok(Verified { upn: verified }),
            _ => Err(Denied::new(KerberosCode::HelperFailed, "an answer to another request")),
        }
    }

    /// Accepts a Negotiate token (without base64), and gives the reply that proves this service to the client; it belongs in
    /// the header `WWW-Authenticate: Negotiate`, where it is not empty.
    ///
    /// # Errors
    /// As [`Self::verify_password`].
    pub async fn accept(&self, token: &[u8]) -> Result<(Verified, Vec<u8>), Denied> {
        if token.is_empty() || token.len() > MAX_TOKEN {
            return Err(Denied::new(KerberosCode::TokenMalformed, "an empty token, or one over 64 KiB"));
        }
        match self.pool.call(&Request::Accept { token: Zeroizing::new(token.to_vec()) }).await? {
            Answer::Accepted { principal, reply } => Ok((Verified { upn: principal }, reply)),
            _ => Err(Denied::new(KerberosCode::HelperFailed, "an answer to another request")),
        }
    }
}
